"""Pickled dictionaries: what numpy.save writes is read, and nothing in a file is ever run."""

import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crossbias.data.published.pickled import read_dictionary
from crossbias.errors import CrossbiasError

PLAIN = {
    "./dataset/test1/3687.jpg": 1,
    b"01/a.jpg": {"age": 34, "gender": 0.0, "none": None, "yes": True, "large": 2**70},
    7: ["a", "b", ("c", -1, 300, 70_000)],
    "empty": [(), {}, []],
}
HEADER = b"\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (), }"
HEADER += b" " * 15 + b"\n"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"


def write(folder: Path, program: bytes, header: bytes = HEADER) -> Path:
    path = folder / "array.npy"
    path.write_bytes(header + program)
    return path


def array_of(value: bytes) -> bytes:
    """The pickle of an array of one object, by hand; ``value`` is the program that makes it."""
    kind = b"cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87R(K\x03X\x01\x00\x00\x00|NNN"
    kind += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
    return b"\x80\x02" + ARRAY + b"(K\x01)" + kind + b"\x89](" + value + b"etb."


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_saved_dictionary_is_read_as_it_was_whatever_the_protocol(protocol, tmp_path):
    program = pickle.dumps(np.array(PLAIN, dtype=object), protocol=protocol)
    assert read_dictionary(write(tmp_path, program)) == PLAIN


def test_what_numpy_saves_is_read(tmp_path):
    np.save(tmp_path / "a.npy", np.array(PLAIN, dtype=object))
    assert read_dictionary(tmp_path / "a.npy") == PLAIN


def test_numbers_and_arrays_of_numpy_become_plain(tmp_path):
    value = {
        "scalars": [np.int64(-3), np.uint8(200), np.float32(0.5), np.bool_(True), np.str_("é")],
        "big-endian": np.array([1, 2, 3], dtype=">i4"),
        "names": np.array(["a.jpg", "bc.jpg"]),
        "bytes": np.array([b"a", b"bc"]),
        "objects": np.array(["a", None, 3], dtype=object),
        "one": np.array(40),
    }
    np.save(tmp_path / "a.npy", np.array(value, dtype=object))
    found = read_dictionary(tmp_path / "a.npy")
    assert found == {
        "scalars": [-3, 200, 0.5, True, "é"],
        "big-endian": [1, 2, 3],
        "names": ["a.jpg", "bc.jpg"],
        "bytes": [b"a", b"bc"],
        "objects": ["a", None, 3],
        "one": [40],
    }
    assert {type(value) for value in found["scalars"]} == {int, float, bool, str}


def test_an_array_that_is_used_twice_is_the_same_twice(tmp_path):
    names = np.array(["a", "b"])
    np.save(tmp_path / "a.npy", np.array({"train": names, "test": names}, dtype=object))
    assert read_dictionary(tmp_path / "a.npy") == {"train": ["a", "b"], "test": ["a", "b"]}


def test_an_array_by_hand_is_read(tmp_path):
    assert read_dictionary(write(tmp_path, array_of(b"}X\x01\x00\x00\x00aK\x07s"))) == {"a": 7}


class Calling:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    "function", [os.system, eval, getattr, np.load, np.frombuffer, np.ndarray, pickle.loads]
)
def test_a_function_is_named_and_not_called(function, protocol, tmp_path):
    command = f"touch {tmp_path / 'owned'}"
    calling = np.array({"a": Calling(function, command)}, dtype=object)
    path = write(tmp_path, pickle.dumps(calling, protocol))
    with pytest.raises(CrossbiasError, match=r"array\.npy safely: it asks for [\w.]+; get the"):
        read_dictionary(path)
    assert not (tmp_path / "owned").exists()


INT = b"cnumpy\ndtype\nX\x02\x00\x00\x00i8K\x00K\x01\x87R"
OBJECT = INT.replace(b"i8", b"O8")
ADDRESS = b"C\x08" + struct.pack("<Q", 0xDEADBEEF)
LETTER = b"C\x04\x00\x00\x11\x00"  # beyond the last letter of Unicode
LONG = b"B\xff\xff\xff\x7f"  # two billion bytes are said to follow


@pytest.mark.parametrize(
    ("value", "message"),
    [
        # The bytes of the file would be taken for the addresses of objects.
        (ARRAY + b"(K\x01K\x01\x85" + OBJECT + b"\x89" + ADDRESS + b"tb", "does not match its"),
        (b"cnumpy.core.multiarray\nscalar\n" + OBJECT + ADDRESS + b"\x86R", "does not match its"),
        # A dtype of numbers whose state says that it has objects in a field at an offset.
        (INT + b"(K\x03X\x01\x00\x00\x00|NX\x01\x00\x00\x00f\x85}K\x08K\x01K?tb", "not plain"),
        (INT + b"(K\x03X\x01\x00\x00\x00|" + OBJECT + b"K\x02\x86NNK\x10K\x08K?tb", "not plain"),
        (INT + b"K\x05b", "not plain"),
        (OBJECT.replace(b"O8", b"V8") + b")b", "not plain"),
        (ARRAY + b"(K\x01J\xff\xff\xff\x7f\x85" + INT + b"\x89" + ADDRESS + b"tb", "with 1 values"),
        (ARRAY + b"(K\x01K\x01K\x01\x86" + INT + b"\x89" + ADDRESS + b"tb", "is not an array"),
        (ARRAY + b"(K\x01)" + INT + b"\x89C\x03abctb", "buffer size must be a multiple"),
        (ARRAY + b"(K\x01)" + INT.replace(b"i8", b"U0") + b"\x89" + ADDRESS + b"tb", "not match"),
        (ARRAY + b"(K\x01)" + INT.replace(b"i8", b"U1") + b"\x89" + LETTER + b"tb", "utf-32"),
        (ARRAY + b"(K\x01)" + INT.replace(b"i8", b"U3") + b"\x89" + ADDRESS + b"tb", "utf-32"),
        (ARRAY + b"(K\x01)" + INT.replace(b"i8", b"U3") + b"\x89C\x04a\0\0\0tb", "not 3 char"),
        (b"cos\nsystem\nX\x02\x00\x00\x00id\x85R", r"it asks for os\.system"),
        (b"cos\nsystem\n}b", "changes a value that is not an array"),
        (b"(ios\nsystem\n", "the instruction INST"),
        (b"\x82\x01", "the instruction EXT1"),
        (b"cnumpy\nndarray\n)\x81", "the instruction NEWOBJ"),
        (b"}}}b", "changes a value that is not an array"),
        (b")(K\x01)" + INT + b"\x89" + ADDRESS + b"tb", "changes a value that is not an array"),
        (b"S'\\q'\n", "the instruction STRING"),
        (b"}}K\x01s", "keys are not names or numbers"),
        (b"})K\x01s", "keys are not names or numbers"),
        (b"}(K\x01u", "zip"),
        (b"}K\x01a", "appends to what is not a list"),
        (b"K\x01K\x02K\x03s", "keys are not names or numbers"),
        (b"K\x01)R", "it calls what is not a function"),
        # A place far out in the memo is only a key, and takes no memory.
        (b"Nr\xff\xff\xff\x7f0h\x07", "the instruction POP"),
        (b"Nr\xff\xff\xff\x7fh\x07", "uses a value that it has not stored"),
        # As text, the module would be a list of two lists of two lists ...
        (b"]" + b"q\x00]h\x00ah\x00a" * 60 + b"X\x01\x00\x00\x00a\x93", "names are not text"),
        (b"cos\x1b[2J\nsys\x07tem\n)R", r"it asks for os\?\[2J\.sys\?tem"),
        (LONG, "expected 2147483647 bytes"),
        (b"\x8e" + b"\xff" * 7 + b"\x7f", "expected .* bytes"),
        (b"e" * 9, "pop from empty list"),
        (b"K\x01", "does not hold a dictionary"),
        (b"}}", "with 2 values"),
    ],
)
def test_a_crafted_program_is_refused_in_one_line(value, message, tmp_path):
    path = write(tmp_path, array_of(value))
    with pytest.raises(CrossbiasError, match=message) as refused:
        read_dictionary(path)
    assert str(refused.value).startswith(f"cannot read {path} safely: ")
    assert "\n" not in str(refused.value)


def test_a_key_of_deep_tuples_does_not_overflow(tmp_path):
    path = write(tmp_path, array_of(b"})" + b"\x85" * 50_000 + b"K\x01s"))
    with pytest.raises(CrossbiasError, match="keys are not names"):
        read_dictionary(path)


@pytest.mark.parametrize(
    ("program", "header"),
    [
        (b"", HEADER), (b"", b""), (b".", HEADER), (b"\x80\x02}.", HEADER), (b"\x80", HEADER),
        (pickle.dumps({}), b""), (array_of(b"}"), HEADER.replace(b"()", b"(1,)")),
        (array_of(b"}"), HEADER.replace(b"|O", b"<i8")), (b"\x00" * 99, HEADER), (b"\xff", HEADER),
    ],
)  # fmt: skip
def test_another_file_is_refused_in_one_line(program, header, tmp_path):
    with pytest.raises(CrossbiasError, match=r"cannot read .*array\.npy safely: .*; get the file"):
        read_dictionary(write(tmp_path, program, header))


def test_a_folder_is_refused_in_one_line(tmp_path):
    with pytest.raises(CrossbiasError, match=r"cannot read .*: Is a directory"):
        read_dictionary(tmp_path)


def test_truncations_and_flipped_bytes_give_an_error_or_a_dictionary(tmp_path):
    value = {"a": np.int64(1), "b": [np.array(["x", "y"])], "c": {"d": b"e"}}
    whole = pickle.dumps(np.array(value, dtype=object), protocol=2)
    draw = random.Random(0)
    programs = [whole[:length] for length in range(0, len(whole), 5)]
    for _ in range(150):
        position = draw.randrange(len(whole))
        programs.append(whole[:position] + bytes([draw.randrange(256)]) + whole[position + 1 :])
    results = [outcome(write(tmp_path, program)) for program in programs]
    refusals = [text for text in results if isinstance(text, str)]
    assert len(refusals) > len(whole) // 5
    assert not [text for text in refusals if "\n" in text]


def outcome(path: Path) -> dict[Any, Any] | str:
    """The dictionary, or the error's text."""
    try:
        return read_dictionary(path)
    except CrossbiasError as error:
        return str(error)
