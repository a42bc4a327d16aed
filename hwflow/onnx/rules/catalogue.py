"""The rules of ONNX that hwflow follows, each with its identifier, how binding it is, and where hwflow enforces it.

The identifiers stand in findings and in the tests (`@pytest.mark.rule("GR-04")`); the titles are hwflow's own words.
Sources: IR.md, Versioning.md, ExternalData.md and onnx.proto of ONNX 1.23.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CATALOGUE", "CONFLICTS", "Level", "RuleEntry"]


class Level(enum.Enum):
    """How binding the specification makes a rule."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"
    MEANING = "meaning"  # says what a file means; the evaluation has to follow it
    FACT = "fact"  # says how things are
    IMPLIED = "implied"  # not written down, but a file that breaks it has no meaning
    PRACTICE = "practice"  # what tools have agreed on
    OWN = "own"  # hwflow's


@dataclass(frozen=True)
class RuleEntry:
    """A rule.  `checked` says where: check, load, save, evaluate, infer, diff, schemas, build; or why nowhere."""

    rule: str
    title: str
    level: Level
    checked: str


#: Where the texts of the specification disagree, and which one hwflow follows.
CONFLICTS: Mapping[str, str] = {
    "IR-01": "IR.md is followed where comments in onnx.proto say otherwise, then what the official checker does",
    "IR-06": "operator sets are named explicitly (IR.md); the implicit import of IR-07 holds below IR version 3 only",
    "NM-01": "names need not be C identifiers: IR.md said MUST and says SHOULD now, and hardly an exporter follows it",
    "IR-09": "a model may leave its domain out: MUST in older texts, SHOULD now, and exporters leave it out",
    "GR-04": "the list of nodes is sorted (IR.md), although an early text said partially ordered and others sort it",
    "AT-08": "sparse tensors may be attributes and, from IR version 8 on, types of values, against the early text",
    "GR-18": "inputs and outputs of the main graph state their rank: newer texts only, so its absence is a warning",
    "IR-05": "a model is refused for operators that it uses, not for all that its operator sets hold",
}

_M, _S, _Y, _N = Level.MUST, Level.SHOULD, Level.MAY, Level.MEANING
_F, _I, _P, _O = Level.FACT, Level.IMPLIED, Level.PRACTICE, Level.OWN

_ROWS = (
    RuleEntry("IR-01", "conflicts between texts are decided and listed", _F, "check"),
    RuleEntry("IR-02", "a file is one ModelProto in binary form", _I, "load"),
    RuleEntry("IR-03", "the IR version is one that is known", _M, "check, load"),
    RuleEntry("IR-04", "IR versions are whole numbers that grow", _F, "check"),
    RuleEntry("IR-05", "operators that are used are supported, or the model is refused", _M, "check"),
    RuleEntry("IR-06", "operator sets are imported explicitly", _M, "check"),
    RuleEntry("IR-07", "before IR 3 the default operator set is implied", _F, "check"),
    RuleEntry("IR-08", "producer and descriptions are free text", _Y, "check"),
    RuleEntry("IR-09", "the model names its domain in reverse-DNS form", _S, "check"),
    RuleEntry("IR-10", "the model's version is any 64-bit number", _Y, "load"),
    RuleEntry("IR-11", "a model has a graph", _I, "check, load"),
    RuleEntry("IR-12", "keys of the metadata are distinct", _S, "check"),
    RuleEntry("IR-13", "author and licence are metadata with agreed keys", _Y, "load"),
    RuleEntry("IR-14", "training information is optional", _Y, "check"),
    RuleEntry("IR-15", "evaluation is deterministic", _N, "evaluate"),
    RuleEntry("IR-16", "only training steps change state", _N, "evaluate"),
    RuleEntry("IR-17", "values are tensors, sequences, maps, optionals or sparse tensors", _F, "load"),
    RuleEntry("IR-18", "models may import operator sets of others", _Y, "check"),
    RuleEntry("IR-19", "which standard operators are evaluated is stated", _M, "check"),
    RuleEntry("IR-20", "functions may be run by their body or by a kernel", _Y, "evaluate"),
    RuleEntry("IR-21", "reading and writing loses nothing", _Y, "load, save"),
    RuleEntry("IR-22", "descriptions are never interpreted", _M, "check"),
    RuleEntry("OS-01", "an operator set is a document of its own", _M, "load, save"),
    RuleEntry("OS-02", "that document begins with its magic word", _I, "load"),
    RuleEntry("OS-03", "that document states its IR version", _F, "load"),
    RuleEntry("OS-04", "operator sets of others have a domain", _M, "load"),
    RuleEntry("OS-05", "versions of operator sets exist", _I, "check"),
    RuleEntry("OS-06", "the default operator set has two names", _F, "check"),
    RuleEntry("OS-07", "a domain is imported in one version", _I, "check"),
    RuleEntry("OS-08", "each operator is in an imported operator set", _M, "check"),
    RuleEntry("OS-09", "an operator's name is unique in its domain", _M, "schemas"),
    RuleEntry("OS-10", "a stable operator never changes under its version", _M, "check, schemas"),
    RuleEntry("OS-11", "experimental operators are pointed out", _F, "check"),
    RuleEntry("OS-12", "an operator is identified by domain, name and first version", _F, "schemas"),
    RuleEntry("OS-13", "an operator set changes with its version only", _M, "schemas"),
    RuleEntry("OS-14", "that holds in subgraphs, functions and training graphs too", _M, "check"),
    RuleEntry("OS-15", "the version of an operator is the newest not above its set", _F, "schemas"),
    RuleEntry("OS-16", "what breaks an operator needs a new version of it", _M, "diff"),
    RuleEntry("OS-17", "new semantics need a new operator version", _M, "diff"),
    RuleEntry("OS-18", "the table of schemas is that of ONNX", _F, "schemas"),
    RuleEntry("OS-19", "a node is bound strictly to a schema and freely to a kernel", _Y, "schemas"),
    RuleEntry("OS-20", "attributes are constants of the graph", _N, "evaluate"),
    RuleEntry("VER-01", "semantic versions are packed 16, 16 and 32 bits wide", _M, "diff"),
    RuleEntry("VER-02", "major or minor is not zero", _M, "diff"),
    RuleEntry("VER-03", "pre-releases and build metadata are not stored", _F, "diff"),
    RuleEntry("VER-04", "IR versions and operator sets use plain numbers", _M, "check"),
    RuleEntry("VER-05", "the three numbers stay in their ranges", _I, "diff"),
    RuleEntry("VER-06", "a large major makes the stored number negative", _I, "diff"),
    RuleEntry("VER-07", "IR, operator set and model versions are independent", _F, "check"),
    RuleEntry("VER-08", "files of the same major version are compatible", _S, "diff"),
    RuleEntry("VER-09", "producers follow the rules of breaking changes", _M, "diff"),
    RuleEntry("VER-10", "the file format's fields keep their numbers", _M, "load"),
    RuleEntry("VER-11", "readers accept missing and unknown fields", _S, "load"),
    RuleEntry("VER-12", "fields that the format requires are set", _M, "check"),
    RuleEntry("VER-13", "the model's version is never a reason to refuse it", _Y, "check"),
    RuleEntry("VER-14", "a breaking change raises major", _S, "diff"),
    RuleEntry("VER-15", "a compatible extension raises minor", _S, "diff"),
    RuleEntry("VER-16", "other weights raise patch", _S, "diff"),
    RuleEntry("VER-17", "strict in what is written, lenient in what is read", _P, "load, save"),
    RuleEntry("VER-18", "each release of ONNX has its IR and operator set versions", _F, "check"),
    RuleEntry("GR-01", "the graph has no cycle", _M, "check"),
    RuleEntry("GR-02", "graphs have names", _M, "check"),
    RuleEntry("GR-03", "a node has an input or an output", _I, "check"),
    RuleEntry("GR-04", "nodes are in topological order", _M, "check"),
    RuleEntry("GR-05", "no node reads what a later one writes", _M, "check"),
    RuleEntry("GR-06", "initializers may be in any order", _F, "load"),
    RuleEntry("GR-07", "an initializer named like an input is its default", _N, "evaluate"),
    RuleEntry("GR-08", "other initializers are constants", _N, "evaluate"),
    RuleEntry("GR-09", "weights that a caller may override are pointed out", _Y, "check"),
    RuleEntry("GR-10", "before IR 4 each initializer is an input too", _M, "check"),
    RuleEntry("GR-11", "initializers have distinct names", _M, "check"),
    RuleEntry("GR-12", "initializers have the type that is stated for their name", _I, "check"),
    RuleEntry("GR-13", "only what outputs depend on matters", _N, "evaluate"),
    RuleEntry("GR-14", "outputs are values of the graph", _I, "check"),
    RuleEntry("GR-15", "inputs have distinct names", _M, "check"),
    RuleEntry("GR-16", "stated types are of values that exist", _Y, "check, infer"),
    RuleEntry("GR-17", "inputs and outputs of the main graph have types", _M, "check"),
    RuleEntry("GR-18", "inputs and outputs of the main graph have ranks", _M, "check"),
    RuleEntry("GR-19", "a shape left out means any shape", _N, "infer"),
    RuleEntry("GR-20", "inputs and outputs of subgraphs have names", _M, "check"),
    RuleEntry("GR-21", "stated types of outputs agree with what is computed", _I, "check, infer"),
    RuleEntry("GR-22", "graphs may have descriptions", _S, "check"),
    RuleEntry("GR-23", "a graph may be empty", _I, "check"),
    RuleEntry("NM-01", "names are C identifiers", _M, "check"),
    RuleEntry("NM-02", "values, nodes, graphs, attributes and dims have namespaces of their own", _M, "check"),
    RuleEntry("NM-03", "names are unique in their namespace", _M, "check"),
    RuleEntry("NM-04", "values are defined by inputs, initializers and nodes", _N, "check"),
    RuleEntry("NM-05", "a value is defined once", _M, "check"),
    RuleEntry("NM-06", "a value is written by one node", _M, "check"),
    RuleEntry("NM-07", "nodes in subgraphs write no outer value", _M, "check"),
    RuleEntry("NM-08", "inputs and initializers of subgraphs hide no outer value", _M, "check"),
    RuleEntry("NM-09", "names of a subgraph are its own", _N, "check"),
    RuleEntry("NM-10", "subgraphs read outer values that are defined before them", _Y, "check"),
    RuleEntry("NM-11", "subgraphs have no initializer that is an input", _M, "check"),
    RuleEntry("NM-12", "a subgraph's output is written inside of it", _P, "check"),
    RuleEntry("NM-13", "a node writes a graph output by its name", _N, "evaluate"),
    RuleEntry("NM-14", "each value that is read is defined", _N, "check"),
    RuleEntry("ND-01", "names of nodes are optional", _Y, "check"),
    RuleEntry("ND-02", "inputs and outputs are bound by position", _N, "check"),
    RuleEntry("ND-03", "a node names its operator", _M, "check"),
    RuleEntry("ND-04", "attributes are bound by name", _N, "check"),
    RuleEntry("ND-05", "a node fits the signature of its operator", _M, "check"),
    RuleEntry("ND-06", "no node depends on itself", _M, "check"),
    RuleEntry("ND-07", "an input names a value", _M, "check"),
    RuleEntry("VA-01", "the last parameter may be variadic", _Y, "check"),
    RuleEntry("VA-02", "variadic parameters have a least number", _M, "check"),
    RuleEntry("OP-01", "optional inputs may be left out", _Y, "check"),
    RuleEntry("OP-02", "they are left out by an empty name or at the end", _N, "check"),
    RuleEntry("OP-03", "required inputs and outputs are given", _I, "check"),
    RuleEntry("OP-04", "outputs without a name need not be computed", _Y, "evaluate"),
    RuleEntry("OP-05", "outputs that are not computed have no name", _M, "check"),
    RuleEntry("AT-01", "attributes are constants of nodes", _F, "check"),
    RuleEntry("AT-02", "a node's attributes have distinct names", _M, "check"),
    RuleEntry("AT-03", "an attribute has a name and a type", _M, "check"),
    RuleEntry("AT-04", "the type says which field holds the value", _N, "check"),
    RuleEntry("AT-05", "an attribute has one value", _M, "check"),
    RuleEntry("AT-06", "zero and empty values may be left out", _I, "check"),
    RuleEntry("AT-07", "floats are single precision, texts are UTF-8", _F, "load"),
    RuleEntry("AT-08", "kinds of attribute values", _F, "load"),
    RuleEntry("AT-09", "descriptions of attributes are ignored", _S, "check"),
    RuleEntry("AT-10", "attributes are those of the schema", _M, "check"),
    RuleEntry("AT-11", "attribute values are among those that make sense", _I, "check"),
    RuleEntry("AT-12", "references to attributes are in functions only", _M, "check"),
    RuleEntry("TD-01", "a tensor has a known element type", _M, "check, load"),
    RuleEntry("TD-02", "a tensor's data is in one field, that of its type", _M, "check, load"),
    RuleEntry("TD-03", "a tensor's data has the size of its dims", _I, "check, load"),
    RuleEntry("TD-04", "dims are not negative and not absurd", _I, "check, load"),
    RuleEntry("TD-05", "dims of zero are legal", _Y, "check, load"),
    RuleEntry("TD-06", "narrow types hold values in range", _I, "check, load"),
    RuleEntry("TD-07", "layouts of the element types", _M, "load"),
    RuleEntry("TD-08", "elements below a byte are packed", _M, "load"),
    RuleEntry("TD-09", "texts in tensors are UTF-8", _M, "check, load"),
    RuleEntry("TD-10", "segments are refused", _Y, "check, load"),
    RuleEntry("EX-01", "large tensors may lie in other files", _Y, "load"),
    RuleEntry("EX-02", "those files lie in the model's folder", _M, "load"),
    RuleEntry("EX-03", "external tensors have no data of their own", _M, "check, load"),
    RuleEntry("EX-04", "external tensors name a file", _M, "check, load"),
    RuleEntry("EX-05", "offset and length are decimal numbers within the file", _Y, "load"),
    RuleEntry("EX-06", "the length is what the dims need", _I, "load"),
    RuleEntry("EX-07", "checksums are verified", _Y, "load"),
    RuleEntry("EX-08", "tensors may share a file", _Y, "load"),
    RuleEntry("EX-09", "models from bytes have no external data", _I, "load"),
    RuleEntry("EX-10", "keys of external data are those known", _F, "check, load"),
    RuleEntry("EX-11", "that holds for tensors everywhere", _I, "check, load"),
    RuleEntry("TY-01", "element types", _F, "load"),
    RuleEntry("TY-02", "floats follow IEEE 754", _M, "evaluate"),
    RuleEntry("TY-03", "texts are UTF-8", _M, "check, load"),
    RuleEntry("TY-04", "elements of tensors are numbers, texts or booleans", _M, "check"),
    RuleEntry("TY-05", "sequences hold values of one type", _N, "check"),
    RuleEntry("TY-06", "keys of maps are integers or texts", _M, "check"),
    RuleEntry("TY-07", "optional, sparse and opaque types", _F, "load"),
    RuleEntry("TY-08", "types exist in the stated IR version", _P, "check"),
    RuleEntry("TY-09", "a tensor without dims is a scalar", _N, "evaluate"),
    RuleEntry("SH-01", "a shape is a list of dims", _F, "load"),
    RuleEntry("SH-02", "a scalar's shape is not an unknown one", _M, "load"),
    RuleEntry("SH-03", "without a shape any is possible", _N, "infer"),
    RuleEntry("SH-04", "a dim is a number, a name, or open", _Y, "load"),
    RuleEntry("SH-05", "names of dims are C identifiers", _M, "check"),
    RuleEntry("SH-06", "an empty name of a dim means open", _F, "check"),
    RuleEntry("SH-07", "a star is a name like others", _F, "check"),
    RuleEntry("SH-08", "ranks are as stated", _M, "check, evaluate"),
    RuleEntry("SH-09", "one name is one size", _M, "check, evaluate, infer"),
    RuleEntry("SH-10", "that holds for elements of sequences", _M, "evaluate"),
    RuleEntry("SH-11", "names of dims go through operators", _F, "infer"),
    RuleEntry("SH-12", "a dim of -1 means open", _P, "check"),
    RuleEntry("SH-13", "sizes are as stated", _N, "evaluate"),
    RuleEntry("SH-14", "names of dims have no scopes", _F, "infer"),
    RuleEntry("FN-01", "a function is an operator with a body", _N, "evaluate"),
    RuleEntry("FN-02", "functions have distinct identities", _M, "check"),
    RuleEntry("FN-03", "functions do not call themselves", _M, "check"),
    RuleEntry("FN-04", "a body sees its own values only", _M, "check"),
    RuleEntry("FN-05", "a function's outputs are written", _I, "check"),
    RuleEntry("FN-06", "domains of functions are imported", _M, "check"),
    RuleEntry("FN-07", "a function's operator sets agree with the model's", _M, "check"),
    RuleEntry("FN-08", "attributes with and without defaults are apart", _M, "check"),
    RuleEntry("FN-09", "calls fit their function", _I, "check"),
    RuleEntry("FN-10", "a function named like a standard operator is pointed out", _Y, "check"),
    RuleEntry("FN-11", "functions exist from IR 8 on", _F, "check"),
    RuleEntry("FN-12", "inlining is bounded", _I, "infer"),
    RuleEntry("TR-01", "a training algorithm has two graphs and two bindings", _F, "load"),
    RuleEntry("TR-02", "bindings set initializers", _M, "check"),
    RuleEntry("TR-03", "initial values are outputs of the initialization", _M, "check"),
    RuleEntry("TR-04", "a variable is bound once", _M, "check"),
    RuleEntry("TR-05", "without initialization there are no initial bindings", _Y, "check"),
    RuleEntry("TR-06", "new values are outputs of the algorithm", _M, "check"),
    RuleEntry("TR-07", "state variables start as their initializers", _M, "evaluate"),
    RuleEntry("TR-08", "algorithms run in any order", _Y, "evaluate"),
    RuleEntry("TR-09", "the algorithm continues the main graph", _M, "check"),
    RuleEntry("SP-01", "sparse tensors are consistent", _M, "check, load"),
    RuleEntry("QA-01", "quantization annotations name values", _Y, "check"),
    RuleEntry("DV-01", "device configurations are hints", _Y, "load"),
    RuleEntry("LM-01", "nesting is bounded", _I, "load"),
    RuleEntry("LM-02", "memory, work and time are bounded", _I, "check, evaluate, infer"),
    RuleEntry("LM-03", "unknown fields are kept, trailing bytes refused", _I, "load"),
    RuleEntry("LM-04", "oracles run in processes of their own", _P, "not applicable: it binds tests only"),
    RuleEntry("HW-01", "scales are positive and finite", _O, "check"),
)

#: By identifier, in the order of the specification.
CATALOGUE: Mapping[str, RuleEntry] = {entry.rule: entry for entry in _ROWS}
