import pytest

from pipelines.domain.bounds import PartOverflow
from pipelines.domain.fence import NO_ATTEMPT, Fence, Outranked, begin, claim, superseded, take

CLAIMED = Fence(latest=7, owner="mine", attempt=NO_ATTEMPT)
WRITING = Fence(latest=8, owner="mine", attempt=2)


def test_the_first_run_claims_a_row_that_is_not_there_and_gets_epoch_1() -> None:
    claimed = claim(Fence(), "mine")
    assert claimed == Fence(0, "mine", NO_ATTEMPT)
    assert take(claimed, "mine", 0) == Fence(1, "mine", 0)


def test_a_claim_changes_the_owner_and_no_epoch() -> None:
    assert claim(WRITING, "other") == Fence(8, "other", NO_ATTEMPT)


@pytest.mark.parametrize("fence", [CLAIMED, WRITING])
def test_a_claim_that_is_repeated_changes_nothing(fence: Fence) -> None:
    assert claim(fence, "mine") == fence


def test_a_run_that_has_claimed_begins_and_what_it_saves_is_resumed_until_the_next_one_begins() -> None:
    begun = begin(WRITING, "mine", "checkpoints/a/chk-1")
    assert begun == Fence(8, "mine", 2, "mine", "checkpoints/a/chk-1")
    assert take(begun, "mine", 3) == begun._replace(latest=9, attempt=3)
    claimed = claim(begun, "other")
    assert claimed == Fence(8, "other", NO_ATTEMPT, "mine", "checkpoints/a/chk-1")
    assert begin(claimed, "other", "") == Fence(8, "other", NO_ATTEMPT, "other", "")


@pytest.mark.parametrize("fence", [Fence(), CLAIMED, WRITING])
def test_a_run_that_another_has_overtaken_does_not_begin(fence: Fence) -> None:
    with pytest.raises(Outranked, match=r"^run other may not begin: the generation belongs to (mine|no run)$"):
        begin(fence, "other", "")


@pytest.mark.parametrize("attempt", [0, 2])
def test_the_first_subtask_of_an_attempt_gets_a_new_epoch_and_the_others_share_it(attempt: int) -> None:
    taken = take(CLAIMED, "mine", attempt)
    assert taken == Fence(8, "mine", attempt)
    assert take(taken, "mine", attempt) == taken


def test_a_newer_attempt_gets_a_newer_epoch() -> None:
    assert take(WRITING, "mine", 3) == Fence(9, "mine", 3)
    assert take(WRITING, "mine", 9) == Fence(9, "mine", 9)


@pytest.mark.parametrize("attempt", [0, 1])
def test_an_older_attempt_is_refused(attempt: int) -> None:
    with pytest.raises(Outranked, match=f"^attempt {attempt} of run mine .* attempt 2 has begun$"):
        take(WRITING, "mine", attempt)


@pytest.mark.parametrize("attempt", [0, 2, 3])
@pytest.mark.parametrize("fence", [Fence(), CLAIMED, WRITING])
def test_another_run_is_refused(fence: Fence, attempt: int) -> None:
    with pytest.raises(Outranked, match=r"^run other may not write: the generation belongs to (mine|no run)$"):
        take(fence, "other", attempt)


def test_epochs_end_by_name() -> None:
    with pytest.raises(PartOverflow, match=r"^epoch 2097152 "):
        take(Fence((1 << 21) - 1, "mine"), "mine", 0)


def test_what_cannot_be_is_an_error_and_no_way_in() -> None:
    with pytest.raises(ValueError, match="name"):
        claim(Fence(), "")
    with pytest.raises(ValueError, match="owner ''"):
        take(Fence(), "", 0)
    with pytest.raises(ValueError, match="attempt -1"):
        take(CLAIMED, "mine", NO_ATTEMPT)


@pytest.mark.parametrize(
    ("fence", "expected"),
    [
        (WRITING, False),
        (Fence(9, "mine", 3), True),
        (Fence(8, "other", NO_ATTEMPT), True),
        (Fence(9, "other", 0), True),
        (Fence(), True),
    ],
)
def test_a_writer_is_superseded_by_a_newer_epoch_or_another_owner(fence: Fence, *, expected: bool) -> None:
    assert superseded(fence, "mine", 8) is expected
