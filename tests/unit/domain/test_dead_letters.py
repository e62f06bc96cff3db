import pytest

from pipelines.domain.dead_letters import DeadLetter, original_bytes


@pytest.mark.parametrize("value", [None, b"", b"\xff\x00", b"\x00", b"\xef\xbb\xbf{}\r\n", "😀".encode()])
def test_every_byte_survives(value: bytes | None) -> None:
    message = DeadLetter("r", "m", "like-events", 1, 2, 3, value).to_message()
    text, encoded = message["value"], message["value_base64"]
    assert text is None or isinstance(text, str)
    assert encoded is None or isinstance(encoded, str)
    assert original_bytes(text, encoded) == value


def test_identity_is_the_origin() -> None:
    assert DeadLetter("r", "m", "like-events", 1, 2, 3, None).identity == ("like-events", 1, 2)


@pytest.mark.parametrize(("text", "encoded"), [("x", "eA=="), (None, "not base64")])
def test_a_damaged_dead_letter_is_refused(text: str | None, encoded: str | None) -> None:
    with pytest.raises(ValueError, match=r"exclude|base64"):
        original_bytes(text, encoded)
