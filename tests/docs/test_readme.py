"""The example of the README runs as it is printed, but for the number of epochs."""

import re
from pathlib import Path

import torch

README = Path(__file__).parents[2] / "README.md"


def x_rays(split: str, samples: int) -> dict[str, torch.Tensor]:
    """What the reader has: images of one split, and two numbers for each."""
    disease = torch.arange(samples) % 2
    hospital = torch.where(torch.arange(samples) % 5 == 0, 1 - disease, disease)
    noise = torch.randint(60, (samples, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    images = noise + 60 * hospital[:, None, None, None]
    columns = {"images": images.to(torch.uint8), "disease": disease, "hospital": hospital}
    return {f"{split}_{name}": column for name, column in columns.items()}


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert "epochs=20" in code
    monkeypatch.chdir(tmp_path)
    names = {**x_rays("train", 40), **x_rays("test", 20)}
    exec(compile(code.replace("epochs=20", "epochs=1"), "README.md", "exec"), names)
    assert (tmp_path / "report.html").stat().st_size > 0
    assert names["result"].metrics["test"].conflicting.n == 4
