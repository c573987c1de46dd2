"""Gates as a JUnit XML file, which CI systems show as tests."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from crossbias.answers.gates import GateResult
from crossbias.formatting import visible

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[GateResult], *, name: str) -> bytes:
    """The file: one test suite for each model, one test case for each gate.

    Args:
        results: The judged gates.
        name: What was judged, such as the file of predictions.

    >>> junit_xml([], name="predictions.csv").decode().splitlines()[1]
    '<testsuites name="predictions.csv" tests="0" failures="0" errors="0" time="0" />'
    """
    root = ElementTree.Element("testsuites", _counts(name, results))
    for model in dict.fromkeys(result.model for result in results):
        of_model = [result for result in results if result.model == model]
        counts = _counts(model, of_model) | {"skipped": "0"}
        suite = ElementTree.SubElement(root, "testsuite", counts)
        for result in of_model:
            named = {"classname": f"crossbias.{_text(model)}", "name": _text(result.gate.text)}
            case = ElementTree.SubElement(suite, "testcase", named | {"time": "0"})
            if not result.passed:
                about = {"message": _text(result.reason), "type": "gate"}
                ElementTree.SubElement(case, "failure", about).text = _text(result.reason)
            else:
                ElementTree.SubElement(case, "system-out").text = _text(result.reason)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counts(name: str, results: Sequence[GateResult]) -> dict[str, str]:
    failed = sum(not result.passed for result in results)
    return {
        "name": _text(name),
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": "0",
        "time": "0",
    }


def _text(text: str) -> str:
    """Text without characters that XML does not allow."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", visible(text))
