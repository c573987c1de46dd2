"""Tables that cannot be judged: each is one line that names the thing, the value and the remedy."""

from pathlib import Path

import pytest

GOOD = "id,y,p,site\n1,ill,.9,A\n2,well,.2,B\n3,ill,.4,A\n4,well,.6,B\n"
CHOSEN = ["--target", "y", "--prediction", "p", "--bias", "site", "--positive", "ill"]

BAD = {
    "missing target": (GOOD, ["--target", "yy"], "has no column 'yy' (did you mean 'y'?)"),
    "missing attribute": (GOOD, ["--bias", "sit"], "has no column 'sit' (did you mean 'site'?)"),
    "missing prediction": (GOOD, ["--prediction", "score"], "has no column 'score'"),
    "pattern of no column": (GOOD, ["--prediction", "p_*"], "has no column 'p_ill'"),
    "mixed types": (
        GOOD.replace("2,well", "2,0"), [],
        "is 'ill' in row 1, but other rows have numbers such as '0'; write numbers or text",
    ),
    "unknown class": (
        GOOD.replace(".4", "sick").replace(".9", "ill").replace(".2", "well").replace(".6", "well"),
        [], "is 'sick' in row 3, which is none of the classes (ill, well)",
    ),
    "class that is not named": (
        GOOD, ["--classes", "ill,fine"], "is 'well' in row 2, which is none of the classes",
    ),
    "classes named twice": (GOOD, ["--classes", "ill,ill,well"], "names one twice"),
    "one class": (GOOD.replace("well", "ill"), [], "has 1 class (ill); a classifier needs two"),
    "no number of a probability": (GOOD.replace(".4", ""), [], "has no number in row 3; give"),
    "probability above 1": (GOOD.replace(".4", "1.4"), [], "is 1.4 in row 3, which is neither"),
    "probability without a class": (
        GOOD, ["--positive="], "there is no class ''",
    ),
    "rows that do not sum to one": (
        "y,p_ill,p_well\nill,.9,.1\nwell,.5,.1\n", ["--prediction", "p_*"],
        "has 0.5, 0.1 at index 1, with the sum 0.6",
    ),
    "NaN among probabilities": (
        "y,p_ill,p_well\nill,.9,.1\nwell,nan,.1\n", ["--prediction", "p_*"],
        "has nan, 0.1 at index 1",
    ),
    "text among probabilities": (
        "y,p_ill,p_well\nill,.9,.1\nwell,high,.1\n", ["--prediction", "p_*"],
        "is 'high' in row 2, which is not a number",
    ),
    "columns for other classes": (
        "y,a,b,c\nill,.9,.1,0\nwell,.5,.5,0\n", ["--prediction", "a,b,c"],
        "has 3 columns of probabilities, but the classes are ill, well",
    ),
    "empty target": (GOOD.replace("3,ill", "3,"), [], "is empty in row 3; leave out rows"),
    "duplicated identifiers": (
        GOOD.replace("3,ill", "2,ill"), ["--id", "id"], "is '2' in 2 rows (2, 3)",
    ),
    "empty identifier": (GOOD.replace("3,ill", ",ill"), ["--id", "id"], "is empty in row 3"),
    "weight of zero": (
        GOOD.replace("4,well", "0,well"), ["--weight", "id"], "is 0 in row 4; weights are above 0",
    ),
    "negative weight": (
        GOOD.replace("4,well", "-2,well"), ["--weight", "id"], "is -2 in row 4; weights",
    ),
    "empty cluster": (GOOD.replace("3,ill", ",ill"), ["--cluster", "id"], "is empty in row 3"),
    "empty file": ("", [], "has no rows"),
    "header only": ("id,y,p,site\n", [], "has no rows"),
    "line with fewer cells": (GOOD + "5,ill\n", [], "line 6 has 2 cells, but the header has 4"),
    "column twice": (GOOD.replace("id", "p", 1), [], "has the column 'p' twice"),
    "no such split": (GOOD, ["--split-column", "site"], "has no split 'test'; its splits are: A"),
    "threshold outside": (GOOD, ["--threshold", "2"], "a threshold is a probability between 0"),
    "threshold of classes": (
        "y,p,site\nill,ill,A\nwell,ill,B\n", ["--threshold", ".5"],
        "a threshold needs probabilities; p holds classes only",
    ),
    "unknown positive class": (GOOD, ["--positive", "il"], "no class 'il' (did you mean 'ill'?)"),
    "too many intersections": (GOOD, ["--intersections", "2"], "takes 2 columns, and 1 are named"),
    "no intersection": (GOOD, ["--intersections", "0"], "is a number of columns from 1, got 0"),
    "aligned class": (GOOD, ["--aligned", "il=A"], "which is none of the classes"),
    "aligned value": (GOOD, ["--aligned", "ill=C"], "which is none of the values of site"),
    "aligned text": (GOOD, ["--aligned", "ill"], "is written CLASS=VALUE, got 'ill'"),
    "gate": (GOOD, ["--require", "gap <="], "the gate 'gap <=' cannot be read"),
    "output": (GOOD, ["-o", "page.pdf"], "--output writes a page (.html) or all numbers (.json)"),
    "junit without gates": (GOOD, ["--junit", "a.xml"], "there is none; add --require GATE"),
    "model twice": (GOOD, ["--prediction", "p"], "the model p is named twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_one_line_and_exit_code_2(crossbias, name: str) -> None:
    text, extra, message = BAD[name]
    Path("predictions.csv").write_text(text)
    replaced = {option for option in extra if option in ("--target", "--positive", "--bias")}
    chosen = dict(zip(CHOSEN[::2], CHOSEN[1::2], strict=True))
    if name != "model twice" and "--prediction" in extra:
        replaced.add("--prediction")
    if "site" not in text or "--bias" in replaced:
        chosen.pop("--bias")
    if extra == ["--positive="]:
        replaced.add("--positive")
    kept = [part for pair in chosen.items() if pair[0] not in replaced for part in pair]
    code, out, err = crossbias("verify", "predictions.csv", *kept, *extra)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_file_that_is_not_there_or_no_table_is_one_line(crossbias) -> None:
    for file, message in {"none.csv": "cannot read none.csv", "a.txt": "must be a .csv"}.items():
        code, out, err = crossbias("verify", file, *CHOSEN)
        assert (code, out) == (2, "")
        assert message in err
    Path("a.parquet").write_bytes(b"PAR1 no table")
    code, _, err = crossbias("verify", "a.parquet", *CHOSEN)
    assert code == 2
    assert "a.parquet is not a Parquet file" in err
    Path("latin.csv").write_bytes("y,p,site\nill,.5,M\xfcnchen\n".encode("latin1"))
    code, _, err = crossbias("verify", "latin.csv", *CHOSEN)
    assert code == 2
    assert "latin.csv line 2 is not UTF-8 text" in err


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (GOOD.replace("4,well", "5,well"), "1 identifiers are only in predictions.csv and 1 only"),
        (GOOD + "5,ill,.3,A\n", "0 identifiers are only in predictions.csv and 1 only"),
        (GOOD.replace("2,well", "2,ill"), "y of '2' is 'well' in predictions.csv, but 'ill'"),
    ],
)
def test_tables_of_other_samples_are_refused(crossbias, second: str, message: str) -> None:
    Path("predictions.csv").write_text(GOOD)
    Path("b.csv").write_text(second)
    code, out, err = crossbias("verify", "predictions.csv", "b.csv", *CHOSEN, "--id", "id")
    assert (code, out) == (2, "")
    assert message in err
    code, _, err = crossbias("verify", "predictions.csv", "b.csv", *CHOSEN)
    assert code == 2
    assert "2 tables are matched by the identifier of each sample; name its column: --id" in err


def test_groups_of_one_are_judged_and_warned_about(crossbias) -> None:
    rows = [
        f"{number},{'ill' if number % 2 else 'well'},.{number % 9},{number}" for number in range(9)
    ]
    Path("predictions.csv").write_text("\n".join(["id,y,p,site", *rows]))
    code, out, _ = crossbias("verify", "predictions.csv", *CHOSEN)
    assert code == 0
    assert "9 of 9 groups have fewer than 12 samples" in " ".join(out.split())
    assert "nan" not in out
    assert "0 of 0 groups of class and value are flagged" in out


def test_ten_thousand_groups_are_readable(crossbias) -> None:
    rows = [f"{'ill' if n % 3 else 'well'},{n % 10 / 10},site {n % 10_000}" for n in range(30_000)]
    Path("predictions.csv").write_text("\n".join(["y,p,site", *rows]))
    code, out, _ = crossbias("verify", "predictions.csv", *CHOSEN, "-o", "page.html")
    assert code == 0
    assert len(out.splitlines()) < 80
    assert "9,980 more values with higher accuracies" in " ".join(out.split())
    assert Path("page.html").stat().st_size < 1_000_000
    assert "9,600 more are not shown" in " ".join(Path("page.html").read_text().split())
