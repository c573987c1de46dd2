"""DICOM files: pixels against pydicom's own pipeline, and tags as columns of a table."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydicom import dcmread
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_modality_lut, apply_voi_lut, apply_windowing
from pydicom.uid import (
    ExplicitVRLittleEndian,
    JPEGBaseline8Bit,
    JPEGLosslessSV1,
    RLELossless,
    generate_uid,
)

import crossbias
from crossbias.data import create_source
from crossbias.data.images.decoding import Fit, decode
from crossbias.data.images.depth import wide_images
from crossbias.data.images.dicom import windowed
from crossbias.data.own import dicom_tags
from crossbias.errors import CrossbiasError

SIDE = 16
FIT = Fit(SIDE, channels=1)
RAMP = (np.arange(SIDE * SIDE).reshape(SIDE, SIDE) * 16).astype(np.uint16)  # 0 to 4080


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


def made(values: np.ndarray = RAMP, *, bits: int = 12, **elements) -> FileDataset:
    """A DICOM file in memory; ``elements`` are set last."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["crossbias"])
    found = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    found.SOPClassUID, found.SOPInstanceUID = (
        meta.MediaStorageSOPClassUID,
        meta.MediaStorageSOPInstanceUID,
    )
    found.Rows, found.Columns = values.shape[:2]
    found.SamplesPerPixel = 1 if values.ndim == 2 else 3
    found.PhotometricInterpretation = "MONOCHROME2" if values.ndim == 2 else "RGB"
    if values.ndim == 3:
        found.PlanarConfiguration = 0
    found.BitsAllocated = 8 * values.dtype.itemsize
    found.BitsStored, found.HighBit = bits, bits - 1
    found.PixelRepresentation = int(values.dtype.kind == "i")
    found.PixelData = values.tobytes()
    found["PixelData"].VR = "OB" if found.BitsAllocated == 8 else "OW"
    for name, value in elements.items():
        setattr(found, name, value)
    return found


def content(found: FileDataset) -> io.BytesIO:
    file = io.BytesIO()
    found.save_as(file, enforce_file_format=True)
    file.seek(0)
    return file


def pixels(found: FileDataset, fit: Fit = FIT) -> np.ndarray:
    decoded = np.frombuffer(decode(content(found), fit), np.uint8)
    return decoded.reshape(fit.channels, fit.size, fit.size).squeeze()


def by_pydicom(found: FileDataset) -> np.ndarray:
    """Brightness from 0 to 1 by pydicom's functions, whose window fills the range of the bits."""
    read = dcmread(content(found))
    stored = read.pixel_array
    ends = np.array([stored.min(), stored.max()])
    bits = read.BitsStored
    if read.PixelRepresentation:
        ends = np.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1])
    else:
        ends = np.array([0, 2**bits - 1])
    low, high = sorted(apply_modality_lut(ends, read).astype(float).tolist())
    shown = apply_voi_lut(apply_modality_lut(stored, read), read).astype(float)
    return (shown - low) / (high - low)


CT = RAMP.astype(np.int16) - 1024
CASES = {
    "no window": made(),
    "a window": made(WindowCenter=2000, WindowWidth=1500),
    "the first of two windows": made(WindowCenter=[2000, 40], WindowWidth=[1500, 400]),
    "sigmoid": made(WindowCenter=2000, WindowWidth=900, VOILUTFunction="SIGMOID"),
    "exact": made(WindowCenter=2000, WindowWidth=900, VOILUTFunction="LINEAR_EXACT"),
    "slope and intercept": made(
        RescaleSlope=1, RescaleIntercept=-1024, WindowCenter=40, WindowWidth=400
    ),
    "slope below one": made(
        RescaleSlope=0.5, RescaleIntercept=7, WindowCenter=900, WindowWidth=777
    ),
    "signed": made(CT, bits=16, WindowCenter=-600, WindowWidth=1500),
    "signed without a window": made(CT, bits=13),
    "rescaled without a window": made(RescaleSlope=2, RescaleIntercept=-100),
}


@pytest.mark.parametrize("case", CASES)
def test_gray_values_are_those_of_pydicoms_own_pipeline(case):
    found = CASES[case]
    # Half a level of rounding, and pydicom's own in the range of the bits
    np.testing.assert_allclose(pixels(found) / 255, by_pydicom(found), atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize("case", ["no window", "a window", "slope and intercept"])
def test_monochrome1_is_the_negative(case):
    found = CASES[case]
    inverted = made(**{
        name: found.get(name)
        for name in ("WindowCenter", "WindowWidth", "RescaleSlope", "RescaleIntercept")
        if name in found
    } | {"PhotometricInterpretation": "MONOCHROME1"})  # fmt: skip
    np.testing.assert_allclose(
        pixels(inverted).astype(int), 255 - pixels(found).astype(int), atol=1
    )


def test_a_voi_table_is_used():
    table = Dataset()
    table.LUTDescriptor = [4096, 0, 10]
    table.LUTData = (1023 - np.arange(4096) // 4).astype(np.uint16).tobytes()  # a negative
    found = made(VOILUTSequence=[table], WindowCenter=1, WindowWidth=2)
    expected = 255.0 * (1023 - RAMP // 4) / 1023
    np.testing.assert_allclose(pixels(found), expected, atol=0.5)


def test_a_modality_table_is_used():
    table = Dataset()
    table.LUTDescriptor = [4096, 0, 16]
    table.LUTData = (np.arange(4096) * 16).astype(np.uint16).tobytes()
    table.ModalityLUTType = "US"
    found = made(ModalityLUTSequence=[table])
    np.testing.assert_allclose(pixels(found), 255 * (RAMP * 16.0) / 65535, atol=0.5)


def test_windows_of_one_level_are_steps():
    values = np.array([99.0, 99.5, 99.6, 101.0])
    assert windowed(values, 100, 1, "LINEAR").tolist() == [0, 0, 1, 1]
    shown = apply_windowing(values.astype(np.int16), made(WindowCenter=100, WindowWidth=1))
    assert (shown[[0, 3]] / 4095).tolist() == [0, 1]


def test_colors_are_read_with_8_bits():
    colors = np.zeros((SIDE, SIDE, 3), np.uint8)
    colors[..., 0], colors[..., 2] = 200, np.arange(SIDE)
    shown = pixels(made(colors, bits=8), Fit(SIDE))
    np.testing.assert_array_equal(shown, colors.transpose(2, 0, 1))


@pytest.mark.parametrize("syntax", [RLELossless, JPEGBaseline8Bit])
def test_compressed_pixels_are_decoded(syntax):
    gray = (RAMP // 16).astype(np.uint8)
    found = made(gray, bits=8)
    if syntax == RLELossless:
        found.compress(RLELossless)
    else:
        file = io.BytesIO()
        Image.fromarray(gray).save(file, "JPEG", quality=100)
        found.PixelData = encapsulate([file.getvalue()])
        found["PixelData"].VR = "OB"
        found["PixelData"].is_undefined_length = True
        found.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    np.testing.assert_allclose(pixels(found).astype(int), gray, atol=2)


def compressed_strangely() -> FileDataset:
    found = made((RAMP // 16).astype(np.uint8), bits=8)
    found.PixelData = encapsulate([b"\0" * 8])
    found["PixelData"].is_undefined_length = True
    found.file_meta.TransferSyntaxUID = JPEGLosslessSV1
    return found


REFUSED = {
    "has no picture": (lambda: without("PixelData"), "DICOM file without pixels"),
    "frames": (lambda: made(NumberOfFrames=3, PixelData=RAMP.tobytes() * 3), "with 3 frames; save"),
    "no decoder": (
        compressed_strangely,
        "compressed as JPEG Lossless.* which no installed",
    ),
    "photometric": (lambda: made(PhotometricInterpretation="ARGB"), "interpretation 'ARGB'"),
    "width": (lambda: made(WindowCenter=3, WindowWidth=0), "window has the width 0"),
    "slope": (lambda: made(RescaleSlope=0, RescaleIntercept=1), "makes all values equal"),
    "too few bytes": (lambda: made(PixelData=b"\0" * 9), "is damaged .DICOM, ValueError"),
    "too large": (lambda: made(Rows=60000, Columns=60000), "is too large .60000 x 60000 pixels"),
}


def without(element: str) -> FileDataset:
    found = made()
    del found[element]
    return found


@pytest.mark.filterwarnings("ignore:.*length:UserWarning")  # pydicom's, of the damaged file
@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_picture_is_refused_in_one_line(case):
    make, message = REFUSED[case]
    with pytest.raises(CrossbiasError, match=message) as caught:
        pixels(make())
    assert "\n" not in str(caught.value)


def test_without_pydicom_the_message_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CrossbiasError, match=r"needs pydicom: pip install 'crossbias\[dicom\]'"):
        pixels(made())


def hospital(folder: Path, count: int = 12) -> Path:
    """A folder for each class; every patient has two images."""
    for number in range(count):
        place = folder / ("ill" if number % 2 else "well")
        place.mkdir(parents=True, exist_ok=True)
        found = made(
            Manufacturer="North" if number % 3 else "South",
            PatientID=f"patient {number // 2}",
            PatientName=f"Doe^Jane {number}",
            PatientBirthDate=f"19{70 + number}0101",
            PatientAge=f"{40 + number:03}Y",
            InstitutionName="" if number == 3 else "Mercy",
        )
        (place / f"{number}.dcm").write_bytes(content(found).getvalue())
    return folder


def test_named_tags_are_columns_that_may_be_the_bias_and_the_patient(tmp_path):
    folder = hospital(tmp_path / "scans")
    data = crossbias.load(
        f"folder:{folder}", "train", size=8, tags=("Manufacturer", "PatientID", "PatientAge"),
        bias="Manufacturer", group_by="PatientID", attributes=("PatientAge:45,50",),
    )  # fmt: skip
    assert data.values["Manufacturer"] == ("North", "South")
    assert data.values["PatientAge:45,50"] == ("<45", "45-50", ">=50")
    assert "PatientID" not in data.attributes
    sizes = np.unique(data.cluster.numpy(), return_counts=True)[1]
    assert set(sizes.tolist()) == {2}  # no patient is torn apart


def test_personal_tags_are_no_attributes_unless_they_are_named_as_such(tmp_path):
    folder = hospital(tmp_path / "scans")
    tags = ("Manufacturer", "PatientID", "PatientBirthDate")
    found = create_source(f"folder:{folder}", size=8, tags=tags, attributes=None)
    for column in tags:
        assert len(set(found.table.column(column))) >= 2
    assert set(found.load("train").attributes) <= {"Manufacturer"}
    named = create_source(f"folder:{folder}", size=8, tags=tags, attributes=("PatientID",))
    assert "PatientID" in named.load("train").attributes


def test_nothing_that_identifies_a_patient_is_written_or_recorded(tmp_path):
    folder = hospital(tmp_path / "scans")
    data = crossbias.load(f"folder:{folder}", "train", size=8, tags=("Manufacturer",))
    said = repr((data.origin, data.values, data.name))
    written = b"".join(
        path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()
    )
    for word in ("Jane", "patient", "19700101", "Mercy"):
        assert word not in said
        assert word.encode() not in written


def test_a_value_that_a_file_lacks_is_unknown(tmp_path):
    folder = hospital(tmp_path / "scans")
    Image.new("L", (8, 8)).save(folder / "ill" / "plain.png")
    found = create_source(f"folder:{folder}", tags=("InstitutionName",))
    cells = dict(
        zip(found.table.column("file"), found.table.column("InstitutionName"), strict=True)
    )
    assert cells["ill/3.dcm"] == cells["ill/plain.png"] == ""
    assert cells["ill/5.dcm"] == "Mercy"


def test_tags_that_are_none_are_refused(tmp_path):
    folder = hospital(tmp_path / "scans")
    for tags, message in (
        (("Manufacturor",), r"no DICOM tag 'Manufacturor' .did you mean 'Manufacturer'"),
        (("PixelData",), "holds no text or number"),
        (("VOILUTSequence",), "holds no text or number"),
        (("class",), "no DICOM tag 'class'"),
    ):
        with pytest.raises(CrossbiasError, match=message):
            _ = create_source(f"folder:{folder}", tags=tags).table
    labels = folder / "labels.csv"
    labels.write_text("file,ill,Manufacturer\nwell/0.dcm,no,A\nill/1.dcm,yes,B\n")
    with pytest.raises(CrossbiasError, match="has a column 'Manufacturer', which tags= names too"):
        _ = create_source(
            f"folder:{folder}", labels="labels.csv", target="ill", tags=("Manufacturer",)
        ).table
    for name in ("a", "b"):
        (tmp_path / "none" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "none" / name / "plain.png")
    with pytest.raises(CrossbiasError, match=r"none of the 2 files of .* is DICOM"):
        _ = create_source(f"folder:{tmp_path / 'none'}", tags=("Manufacturer",)).table


def test_a_tag_may_be_the_target_of_images_in_one_folder(tmp_path):
    (tmp_path / "one").mkdir()
    (hospital(tmp_path / "scans") / "well").rename(tmp_path / "one" / "scans")
    data = create_source(
        f"folder:{tmp_path / 'one'}", size=8, tags=("Manufacturer",), target="Manufacturer"
    ).load("train")
    assert data.classes == ("North", "South")


def test_dicom_files_need_no_depth(tmp_path):
    folder = hospital(tmp_path / "scans")
    found = create_source(f"folder:{folder}", size=8)
    assert wide_images(found.items).images == 0
    assert found.load("train").origin["depth"] is None


@pytest.mark.parametrize(
    ("text", "years"), [("045Y", "45"), ("018M", "1.5"), ("000D", "0"), ("Y045", "Y045")]
)
def test_ages_become_years(text, years):
    assert dicom_tags._as_text(text) == years
