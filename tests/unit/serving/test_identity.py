import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pipelines.errors import SettingError
from pipelines.settings import Settings
from serving.identity import development_token, verifier
from serving.problems import Problem

SECRET = "s" * 32
NOW = time.time()
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC = ec.generate_private_key(ec.SECP256R1())


def settings(**auth: object) -> Settings:
    return Settings.model_validate({"auth": auth})


def claims(**changed: object) -> dict[str, Any]:
    made = {"sub": "u1", "iss": "likes", "aud": "likes", "exp": NOW + 86_400, **changed}
    return {name: value for name, value in made.items() if value is not None}


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, kind)


def bearer(token: str) -> str:
    return f"Bearer {token}"


def refused(settings: Settings, token: str) -> str:
    with pytest.raises(Problem) as caught:
        verifier(settings, None).identity(bearer(token))
    assert caught.value.status == 401
    return caught.value.detail


def test_nobody_is_nobody() -> None:
    assert verifier(settings(secret=SECRET), None).identity(None) is None


def test_a_secret() -> None:
    found = verifier(settings(secret=SECRET), None).identity(bearer(jwt.encode(claims(region="eu"), SECRET)))
    assert found is not None
    assert (found.user_id, found.region) == ("u1", "eu")


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_a_public_key(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, algorithm: str, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem(key))
    ours = settings(public_key_file=str(tmp_path / "key.pem"))
    found = verifier(ours, None).identity(bearer(jwt.encode(claims(), key, algorithm)))
    assert found is not None
    assert found.user_id == "u1"
    # A public key is no secret: who signs with it is refused, and so is who does not sign.
    confused = jwt.api_jws.PyJWS()
    header = {"alg": "HS256", "typ": "JWT"}
    raw = confused._algorithms["HS256"]
    signing_input = ".".join(
        jwt.utils.base64url_encode(json.dumps(part).encode()).decode() for part in (header, claims())
    )
    forged = f"{signing_input}.{jwt.utils.base64url_encode(raw.sign(signing_input.encode(), pem(key))).decode()}"
    refused(ours, forged)
    refused(ours, jwt.encode(claims(), "", algorithm="none"))
    other = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    refused(ours, jwt.encode(claims(), other, "RS256"))


def test_a_key_set(tmp_path: Path) -> None:
    entries = [
        {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "a"},
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC.public_key())), "kid": "b", "use": "sig"},
    ]
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": entries}))
    ours = settings(jwks_file=str(path))
    for key, kid, algorithm in ((RSA, "a", "RS256"), (EC, "b", "ES256")):
        token = jwt.encode(claims(sub=kid), key, algorithm, headers={"kid": kid})
        found = verifier(ours, None).identity(bearer(token))
        assert found is not None
        assert found.user_id == kid
    assert "kid" in refused(ours, jwt.encode(claims(), RSA, "RS256", headers={"kid": "c"}))
    refused(ours, jwt.encode(claims(), RSA, "RS256", headers={"kid": "b"}))
    refused(ours, jwt.encode(claims(), RSA, "RS256"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": NOW - 60},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "u" * 65},
        {"sub": "a\nb"},
        {"sub": 7},
        {"iss": "others"},
        {"iss": None},
        {"aud": "others"},
        {"aud": None},
        {"nbf": NOW + 86_400},
        {"region": "mars"},
        {"region": ["us"]},
    ],
)
def test_claims_that_are_refused(wrong: dict[str, Any]) -> None:
    refused(settings(secret=SECRET), jwt.encode(claims(**wrong), SECRET))


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "é.é.é", "." * 50, jwt.encode(claims(), "t" * 32)])
def test_tokens_that_are_none(token: str) -> None:
    assert refused(settings(secret=SECRET), token).isascii()


def test_another_scheme() -> None:
    with pytest.raises(Problem, match="Bearer"):
        verifier(settings(secret=SECRET), None).identity("Basic abc")


def test_the_issuers_clock_may_be_a_little_ahead_and_a_known_token_still_expires() -> None:
    now = time.time()
    clock = [now]
    ours = verifier(settings(secret=SECRET, leeway_s=30), None)
    ours._now = lambda: clock[0]
    token = bearer(jwt.encode(claims(exp=now - 10), SECRET))
    assert ours.identity(token) is not None
    clock[0] = now + 21
    with pytest.raises(Problem, match="expired"):
        ours.identity(token)


def test_the_local_stack_has_a_secret_of_its_own(tmp_path: Path) -> None:
    token = development_token(settings(), tmp_path / "stack", "u9", NOW)
    found = verifier(settings(), tmp_path / "stack").identity(bearer(token))
    assert found is not None
    assert found.user_id == "u9"
    assert (tmp_path / "stack" / "dev-token-secret").stat().st_mode & 0o777 == 0o600
    refused(settings(secret=SECRET), token)


def test_no_key_at_all_stops_the_start() -> None:
    with pytest.raises(SettingError, match=r"auth\.secret"):
        verifier(settings(), None)


@pytest.mark.parametrize(
    ("name", "text"), [("public_key_file", "no key"), ("jwks_file", "{}"), ("jwks_file", '{"keys":[]}')]
)
def test_a_file_that_is_none(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(SettingError, match=f"auth.{name}"):
        verifier(settings(**{name: str(tmp_path / "file")}), None)


def test_two_keys_and_a_short_secret_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="one of"):
        settings(secret=SECRET, jwks_file="x")
    with pytest.raises(ValueError, match="32 bytes"):
        settings(secret="short")  # noqa: S106
