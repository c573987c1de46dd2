"""``crossbias verify --plan``: the same numbers as on its page, for counts or for own data."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sample-size.md"


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def test_the_example_of_the_page_is_what_is_printed(crossbias) -> None:
    example = re.search(r"```\n(half-width.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    code, out, _ = crossbias("verify", "--plan", "--counts", "500,40,30,480")
    assert code == 0
    assert words(out) == words(example[1])


def test_own_data_is_counted_without_its_images(crossbias) -> None:
    """Seven conflicting test samples; the files do not exist."""
    groups = [("ill", "a", 20), ("ill", "b", 4), ("well", "a", 3), ("well", "b", 20)]
    rows = [
        f"{split}-{ill}-{site}-{number}.png,{ill},{site},{split}"
        for split in ("train", "test")
        for ill, site, size in groups
        for number in range(size)
    ]
    Path("labels.csv").write_text("\n".join(["file,disease,site,split", *rows]) + "\n")
    Path("images").mkdir()
    own = ["--data", "folder:images", "--labels", "labels.csv", "--target", "disease"]
    code, out, err = crossbias("verify", "--plan", *own, "--bias", "site")
    assert code == 0, err
    assert "ill b conflicting 4 " in " ".join(words(out))
    assert "well b aligned 20 16.8 points" in " ".join(words(out))
    assert "There are 7, too few to see any gain under this assumption." in out
    code, _, err = crossbias("verify", "--plan", *own)
    assert code == 2
    assert "names no bias; name its column: --bias" in err


def test_three_classes_and_other_assumptions(crossbias) -> None:
    code, out, _ = crossbias(
        *("verify", "--plan", "--counts", "50,5/5,50/20,30", "--gain", ".1"),
        *("--differing", ".1", "--deviation", ".05", "--accuracy", ".5"),
    )
    assert code == 0
    assert "3 2 aligned 30 " in " ".join(words(out))
    assert "a gain of 10 points between two trained models with 80% power: 77 conflict" in out
    assert "at least 6 seeds of each" in out
    code, out, _ = crossbias("verify", "--plan", "--counts", "10,10,10,10")
    assert "No group is aligned, so which samples conflict is not known." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predictions.csv"], "name a table of answers and its columns"),
        ([], "name a table of answers and its columns"),
        (["--plan"], "give --counts 500,40,30,480 or --data, one of them"),
        (["--plan", "--counts", "1,2,3"], "got '1,2,3'"),
        (["--plan", "--counts", "1,2/3"], "got '1,2/3'"),
        (["--plan", "--counts", "a,2"], "got 'a,2'"),
        (["--plan", "--counts", "-1,2"], "got '-1,2'"),
        (["--plan", "--counts", "0,0"], "got '0,0'"),
        (["--plan", "--counts", "5,5", "--gain", "5"], "between 0 and 1, got 5.0; write 5% as .05"),
        (["--plan", "--counts", "5,5", "--accuracy", "80"], "accuracy must be between 0 and 1"),
    ],
)
def test_what_cannot_be_planned_is_one_line(crossbias, arguments: list[str], message: str) -> None:
    code, out, err = crossbias("verify", *arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err
