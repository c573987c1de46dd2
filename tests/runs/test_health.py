"""health.json: written whole, read back, refused where it is damaged."""

import pytest

from crossbias.errors import CrossbiasError
from crossbias.runs.health import Symptom, in_words, load_health, save_health

FEW = Symptom("few samples", "There are 3 samples.", "Collect more.")
MANY = Symptom("many samples", "There are 10 billion samples.", "Buy a disk.")


def test_symptoms_are_read_back_as_they_were(tmp_path):
    save_health(tmp_path / "health.json", [FEW, MANY])
    assert load_health(tmp_path / "health.json") == [FEW, MANY]


def test_a_run_without_the_file_is_healthy(tmp_path):
    assert load_health(tmp_path / "health.json") == []


COMPLETE = '[{"name": "few", "sentence": "There are 3 samples.", "remedy": "Collect more."}]'


@pytest.mark.parametrize("text", ["{", "3", '["few"]', '[{"name": "few"}]', COMPLETE])
def test_a_damaged_file_is_refused(text, tmp_path):
    (tmp_path / "health.json").write_text(text)
    with pytest.raises(CrossbiasError, match=r"health.json is damaged"):
        load_health(tmp_path / "health.json")


def test_seeds_are_counted_where_there_are_several():
    other = FEW._replace(sentence="There are 4 samples.")
    assert in_words([[FEW, MANY]]) == [str(FEW), str(MANY)]
    assert in_words([[FEW], [other], [MANY]]) == [
        "There are 3 samples. Collect more. (2 of 3 seeds)",
        "There are 10 billion samples. Buy a disk. (1 of 3 seeds)",
    ]
