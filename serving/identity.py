"""Who is asking: the subject of a verified bearer token, never anything in the body.

A token is a JWT (RFC 7519) signed with HS256, RS256 or ES256. Which algorithms are taken depends on the key that is
configured, not on what the token says (RFC 8725, 3.1), so neither `none` nor a public key used as a secret gets
through.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from cachetools import LRUCache
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from deploy.flink.local_stack.paths import TOKEN_SECRET_FILE
from pipelines.domain.events import refusal_of_id
from pipelines.errors import SettingError
from serving.problems import unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.settings import Settings

_KNOWN_TOKENS = 10_000
_SCHEME = "bearer "
_DEV_LIFE_S = 86_400


@dataclass(frozen=True, slots=True)
class Identity:
    """A signed-in user.

    Fields:
        user_id: The token's `sub`.
        region: The token's `region`, else the home region of the settings.
        expires_at: Seconds since the epoch, leeway included.
    """

    user_id: str
    region: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class Key:
    """What a token may be signed with.

    Fields:
        key: For PyJWT.
        algorithm: The only one that goes with it.
    """

    key: Any
    algorithm: str


class Verifier:
    """Verifies bearer tokens.

    Args:
        settings: Of issuer, audience, leeway and regions.
        keys: By key id; a single key has the id "".
        now: Seconds since the epoch.
    """

    def __init__(self, settings: Settings, keys: dict[str, Key], now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._keys = keys
        self._now = now
        self._known: LRUCache[str, Identity] = LRUCache(_KNOWN_TOKENS)

    def identity(self, authorization: str | None) -> Identity | None:
        """Who an Authorization header speaks of; None if there is no header.

        Raises:
            Problem: 401 with what is wrong with the token.
        """
        if authorization is None:
            return None
        if not authorization.lower().startswith(_SCHEME):
            raise unauthorized("the Authorization header is not of the form Bearer TOKEN")
        token = authorization[len(_SCHEME) :].strip()
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = self._verify(token)
        if self._now() >= known.expires_at:
            raise unauthorized("the token has expired")
        return known

    def _verify(self, token: str) -> Identity:
        auth = self._settings.auth
        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                issuer=auth.issuer,
                audience=auth.audience,
                leeway=auth.leeway_s,
                options={"require": ["exp", "sub", "iss", "aud"]},
            )
        except (jwt.PyJWTError, OverflowError, UnicodeError) as error:
            raise unauthorized(f"the token is not valid: {_plain(str(error))}") from None
        subject, region = claims["sub"], claims.get("region", self._settings.events.home_region)
        try:
            subject.encode()
            expires_at = float(claims["exp"]) + auth.leeway_s
        except (OverflowError, UnicodeError):
            raise unauthorized("the token's claims are out of range") from None
        if refusal := refusal_of_id(subject, "user_id"):
            raise unauthorized(f"the token's subject can be no user: {refusal}")
        if region not in self._settings.events.regions:
            raise unauthorized("the token's region is not known")
        return Identity(subject, region, expires_at)

    def _key(self, key_id: object) -> Key:
        if "" in self._keys:
            return self._keys[""]
        key = self._keys.get(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise jwt.InvalidTokenError("no key has its kid")
        return key


def _plain(text: str) -> str:
    """Fit for a quoted string in a header."""
    return "".join(
        character for character in text if character.isascii() and character.isprintable() and character != '"'
    )


def verifier(settings: Settings, folder: Path | None) -> Verifier:
    """The verifier that the settings ask for.

    Args:
        settings: With [auth].
        folder: Of the local stack, whose own secret is taken where no key is configured; None if there is no stack.

    Raises:
        SettingError: A file cannot be read or holds no such key, or there is no key at all.
    """
    return Verifier(settings, _keys(settings, folder))


def development_token(settings: Settings, folder: Path, user_id: str, now_s: float) -> str:
    """A token for the local stack, good for a day.

    Raises:
        SettingError: Somebody else signs the tokens, so we cannot.
    """
    secret = settings.auth.secret.get_secret_value()
    if settings.auth.public_key_file or settings.auth.jwks_file:
        raise SettingError("setting auth.public_key_file or auth.jwks_file: tokens are signed by somebody else")
    claims = {
        "sub": user_id,
        "iss": settings.auth.issuer,
        "aud": settings.auth.audience,
        "iat": int(now_s),
        "exp": int(now_s) + _DEV_LIFE_S,
    }
    return jwt.encode(claims, secret or _stack_secret(folder), algorithm="HS256")


def _keys(settings: Settings, folder: Path | None) -> dict[str, Key]:
    auth = settings.auth
    if auth.public_key_file:
        return {"": _public_key(auth.public_key_file)}
    if auth.jwks_file:
        return _key_set(auth.jwks_file)
    if secret := auth.secret.get_secret_value():
        return {"": Key(secret, "HS256")}
    if folder is None:
        raise SettingError(
            "there is no key to verify tokens with",
            "give one of the settings auth.secret, auth.public_key_file and auth.jwks_file",
        )
    return {"": Key(_stack_secret(folder), "HS256")}


def _stack_secret(folder: Path) -> str:
    """The stack's own secret, made whole or not at all: whoever comes second reads what is there."""
    path = folder / TOKEN_SECRET_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        opened, name = tempfile.mkstemp(dir=folder, prefix=f".{TOKEN_SECRET_FILE}-")  # for its owner alone
        with os.fdopen(opened, "w", encoding="utf-8") as made:
            made.write(secrets.token_urlsafe(48))
        with suppress(FileExistsError):
            os.link(name, path)
        Path(name).unlink()
    return path.read_text(encoding="utf-8")


def _public_key(name: str) -> Key:
    try:
        key = load_pem_public_key(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        raise SettingError(f"setting auth.public_key_file: {name} is no public key: {error}") from None
    if isinstance(key, RSAPublicKey):
        return Key(key, "RS256")
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return Key(key, "ES256")
    raise SettingError(f"setting auth.public_key_file: {name} holds neither an RSA nor a P-256 key")


def _key_set(name: str) -> dict[str, Key]:
    try:
        entries = json.loads(Path(name).read_text(encoding="utf-8"))["keys"]
        found = {}
        for entry in entries:
            algorithm = {"RSA": "RS256", "EC": "ES256"}.get(entry.get("kty"))
            if algorithm and "kid" in entry and entry.get("use", "sig") == "sig":
                found[str(entry["kid"])] = Key(jwt.PyJWK(entry, algorithm=algorithm).key, algorithm)
    except (OSError, ValueError, KeyError, TypeError, jwt.PyJWTError) as error:
        raise SettingError(f"setting auth.jwks_file: {name} is no key set: {error}") from None
    if not found:
        raise SettingError(f"setting auth.jwks_file: {name} holds no RSA or P-256 key with a kid")
    return found
