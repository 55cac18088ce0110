"""The share of tests with many cases that CI runs (tests/sweep.py)."""

from tests.sweep import MANY, share_of

MANY_CASES = [f"tests/test_a.py::test_many[{case}]" for case in range(80)]
FEW_CASES = [f"tests/test_a.py::test_few[{case}]" for case in range(MANY - 1)]
PLAIN = ["tests/test_a.py::test_one"]


def test_few_cases_all_run() -> None:
    assert share_of(FEW_CASES + PLAIN, share=8, salt="commit") == {*FEW_CASES, *PLAIN}


def test_of_many_cases_a_share_runs_and_every_case_in_some_commit() -> None:
    shares = [share_of(MANY_CASES, share=8, salt=str(commit)) for commit in range(100)]
    assert set().union(*shares) == set(MANY_CASES)
    assert max(map(len, shares)) < 30
    assert shares[0] == share_of(MANY_CASES, share=8, salt="0")


def test_one_case_runs_where_chance_takes_none() -> None:
    cases = MANY_CASES[:MANY]
    shares = [share_of(cases, share=1000, salt=str(commit)) for commit in range(50)]
    assert {len(share) for share in shares} == {1}
    assert len(set().union(*shares)) > 1


def test_all_run_without_a_share() -> None:
    assert share_of(MANY_CASES + FEW_CASES, share=1, salt="") == {*MANY_CASES, *FEW_CASES}
