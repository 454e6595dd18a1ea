"""Hostile specs, as the text of spec files: each tries to run code, to exhaust, or to break out.

`canary` stands for a module on the path whose import, or any call of its functions, leaves a trace.
"""

from __future__ import annotations

BASE = """\
ProbeFwdOp:
  family: probes
  status: implemented
  signature:
    forall: {R: Dim, C: Dim, T: "DType[float16 | float32]"}
    params:
      gain: {type: float, default: 1.0}
      mode: {type: "'slow' | 'exact'", default: slow}
    inputs:
      x: {dtype: T, shape: "[R, C]"}
      ids: {dtype: int32, shape: "[R]", values: "full((R,), 0)", requires: ["in_range(0, 1)"]}
    outputs:
      y: {dtype: T, shape: "[R, C]"}
    let: {Q: "R * C"}
    shape_rules: ["Q > 0"]
  workloads:
  - {R: 4, C: 8, dtype_cases: [{T: float16}], label: tiny}
  roofline: {flops: "R * C"}
"""

RULE = '["Q > 0"]'
LET = '{Q: "R * C"}'
VALUES = '"full((R,), 0)"'
TENSOR = '      {name}: {{dtype: T, shape: "[R, C]"'
REQUIRES = '["in_range(0, 1)"]'


def varied(old: str, new: str) -> str:
    """The sound spec with one part replaced."""
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def rule(text: str) -> str:
    """The sound spec with another refinement, quoted as YAML wants it."""
    return varied(RULE, "['" + text.replace("'", "''") + "']")


def let(**definitions: str) -> str:
    """The sound spec with more definitions."""
    listed = ", ".join(f'{name}: "{text}"' for name, text in definitions.items())
    return varied(LET, f'{{Q: "R * C", {listed}}}').replace(RULE, '["Q > 0", "last > 0"]')


def generator(text: str, shape: str = "[R]") -> str:
    """The sound spec whose metadata tensor another generator fills, and gives `R`."""
    spec = varied(VALUES, f'"{text}"').replace("{R: 4, C: 8", "{C: 8")
    return spec.replace(
        'ids: {dtype: int32, shape: "[R]"', f'ids: {{dtype: int32, shape: "{shape}"'
    )


def lengths(text: str) -> str:
    """The sound spec whose row gives a list of lengths as a call."""
    spec = varied("{R: Dim, C", "{L: 'Seq[Int]', R: Dim, C").replace(VALUES, '"as_tensor(L)"')
    return spec.replace("{R: 4, C: 8", f'{{L: "{text}", C: 8')


def flags(count: int) -> str:
    """Declarations of so many flags."""
    return "".join(f"      b{n}: {{type: bool, default: false}}\n" for n in range(count))


def adt(text: str, python: str = "canary.Trap") -> str:
    """The sound spec with a parameter of an algebraic type, defined by this constructor."""
    spec = varied("type: float, default: 1.0", "type: Trap")
    return f"adts: {{Trap: {{sum: {{a: {{python: {python}, {text}}}}}}}}}\n{spec}"


def squared(times: int) -> str:
    """A number squared again and again, by definitions of definitions."""
    steps = {"a0": "R + 2"} | {f"a{n + 1}": f"a{n} * a{n}" for n in range(times)}
    return let(**steps, last=f"a{times}")


ESCAPES = {
    "import": rule("__import__('os').system('touch canary')"),
    "import_method": rule("__import__('canary').spring()"),
    "eval": rule("eval('1') > 0"),
    "exec": rule("exec('import canary')"),
    "open": rule("open('/etc/passwd')"),
    "getattr": rule("getattr(R, '__class__') == R"),
    "globals": rule("globals()['x'] == 1"),
    "dunder_class": rule("R.__class__ == R"),
    "dunder_bases": rule("().__class__.__bases__[0].__subclasses__() == R"),
    "dunder_of_string": rule("'a'.__class__ == 'a'"),
    "format": rule("'{0.__class__}'.format(R) == 'a'"),
    "format_percent": rule("'%s' % R == 'a'"),
    "lambda": rule("(lambda: canary.spring())()"),
    "walrus": rule("(k := R) > 0"),
    "comprehension": rule("[canary for canary in (R,)]"),
    "generator_call": rule("all(spring(a) for a in (R,))"),
    "generator_attribute": rule("all(a.real > 0 for a in (R,))"),
    "f_string": rule("f'{R}' == 'a'"),
    "bytes": rule("b'a' == 'a'"),
    "escape_in_string": rule("mode == '\\x41'"),
    "triple_quote": rule("mode == '''slow'''"),
    "backtick": rule("`touch canary` == R"),
    "dollar": rule("$(touch canary) == R"),
    "semicolon": rule("R > 0; import canary"),
    "comment": rule("R > 0 # and then"),
    "newline_import": varied(RULE, '["R > 0\\nimport canary"]'),
    "newline_string": varied(RULE, "[\"mode == 'slow\\nimport canary'\"]"),
    "nul": varied(RULE, '["R > 0\\0"]'),
    "decorator": rule("@canary"),
    "starred": rule("max((*R,)) > 0"),
    "unpacked_arguments": rule("max(**R) > 0"),
    "module_function": rule("os.system('touch canary') == 0"),
    "primitive_namespace": rule("conv.__globals__ == R"),
    "primitive_attribute": rule("ceil_div.__globals__ == R"),
    "private_primitive": rule("conv._out(R, 1, 1, 0, 1) > 0"),
    "unknown_primitive": rule("moe.spring(R) > 0"),
    "fullwidth_letters": rule("\N{FULLWIDTH LATIN SMALL LETTER E}val('1') > 0"),
    "shape_call": varied('"[R, C]"}\n      ids', '"[R, spring(C)]"}\n      ids'),
    "shape_import": varied('"[R, C]"}\n      ids', "\"[*__import__('canary').X]\"}\n      ids"),
    "dtype_call": varied(
        'dtype: T, shape: "[R, C]"}\n    let', 'dtype: "eval(T)", shape: "[R, C]"}\n    let'
    ),
    "generator_escape": varied(VALUES, '"canary.spring(R)"'),
    "generator_dunder": varied(VALUES, '"full.__call__((R,), 0)"'),
    "predicate_escape": varied(REQUIRES, '["canary.spring(0)"]'),
    "roofline_escape": varied('flops: "R * C"', "flops: \"__import__('canary').spring()\""),
    "let_escape": let(last="__import__('canary').spring()"),
    "row_escape": lengths("repeat(__import__('os'), 3)"),
    "optional_escape": varied("label: tiny", "some: [__class__], label: tiny"),
    "presence_escape": varied('values: "full', 'optional: "canary.spring()", values: "full'),
}

YAML = {
    "apply": BASE.replace(
        "family: probes", "family: !!python/object/apply:os.system ['touch canary']"
    ),
    "new": "ProbeFwdOp: !!python/object/new:canary.Trap {}\n",
    "name": BASE.replace("family: probes", "family: !!python/name:canary.spring"),
    "module": BASE.replace("family: probes", "family: !!python/module:canary"),
    "local_tag": BASE.replace("family: probes", "family: !canary probes"),
    "binary": BASE.replace("family: probes", "family: !!binary cHJvYmVz"),
    "set": BASE.replace("{flops", "!!set {flops"),
    "tag_directive": "%TAG ! tag:yaml.org,2002:python/\n---\nProbeFwdOp: !name:canary.spring {}\n",
    "merge": "base: &b {family: probes}\nProbeFwdOp: {<<: *b}\n",
    "laughs": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
    "mapping_laughs": "a0: &a0 {x: y}\n"
    + "".join(
        f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}}}\n"
        for n in range(1, 12)
    ),
    "long_alias": f"a: &a [{'x, ' * 50_000}x]\nb: [{'*a, ' * 50_000}*a]\n",
    "recursive": "ProbeFwdOp: &a [*a]\n",
    "recursive_mapping": "ProbeFwdOp: &a {signature: *a}\n",
    "deep_flow": "ProbeFwdOp: " + "[" * 100_000,
    "deep_mapping": "ProbeFwdOp: " + "{a: " * 100_000,
    "deep_block": "".join(f"{' ' * n}a:\n" for n in range(2_000)),
    "repeated_key": BASE + "  family: others\n",
    "two_documents": BASE + "---\n" + BASE,
    "mapping_as_key": "{a: b}: {family: probes}\n",
    "control_characters": BASE.replace("probes", "pro\x07bes"),
    "unknown_alias": "ProbeFwdOp: *nowhere\n",
    "not_a_mapping": "- ProbeFwdOp\n",
}

EXHAUSTION = {
    "decimal_digits": rule("R > " + "9" * 1_000_000),
    "yaml_digits": varied("R: 4", "R: " + "9" * 1_000_000),
    "yaml_hexadecimal": varied("R: 4", "R: 0x" + "f" * 1_000_000),
    "float_exponent": varied("default: 1.0", "default: 1e999999999"),
    "literal_exponent": rule("gain < 1e999999999"),
    "power": rule("10 ** 10 ** 10 > R"),
    "shift": rule("1 << 10000000000 > R"),
    "squares": squared(40),
    "literal_squares": rule("(" + "*".join(["99999999999999999999"] * 5_000) + ") > R"),
    "string_repetition": rule("mode == 'a' * 10000000000"),
    "tuple_repetition": rule("len((R,) * 10000000000) > 0"),
    "repeat": generator("as_tensor(repeat(0, 1000000000000))"),
    "balanced": generator("as_tensor(balanced_sizes(1000000000000, 1000000000000))"),
    "full": generator("full((1000000000000,), 0)"),
    "full_of_many_axes": generator("full((R, 1000000, 1000000, 1000000), 0)"),
    "samples": generator("sample_indices(1000000000000, 1000000000000)"),
    "topk": generator("topk_ids(1000000000, 1, 1000000000)", "[R, 1]"),
    "block_table": generator("paged_block_table(1000000, 1000000, 1000000000000)", "[R, 1000000]"),
    "positions": generator("packed_positions((100000000000,))"),
    "row_of_lengths": lengths("repeat(0, 999999999999)"),
    "row_of_products": lengths(f"repeat({'*'.join('9' * 40)}, {'*'.join('9' * 40)})"),
    "optional_tensors": varied(
        "    outputs:",
        "".join(f"{TENSOR.format(name=f'o{n}')}, optional: true}}\n" for n in range(40))
        + "    outputs:",
    ),
    "flags": varied("      gain:", f"{flags(40)}      gain:").replace(
        RULE, f'["{" or ".join(f"b{n}" for n in range(40))} or R > 0"]'
    ),
    "finite_fields": adt(f"fields: {{{', '.join(f'f{n}: Bool' for n in range(40))}}}"),
    "definitions": let(**{f"a{n}": f"a{n - 1} + 1" for n in range(1, 3000)}, a0="R", last="a0"),
    "outputs": varied(
        "    let:",
        "".join(f"{TENSOR.format(name=f'o{n}')}}}\n" for n in range(3000)) + "    let:",
    ),
    "long_expression": rule(" + ".join(["R"] * 400_000) + " > 0"),
    "deep_parentheses": rule("(" * 50_000 + "R" + ")" * 50_000 + " > 0"),
    "deep_minus": rule("-" * 50_000 + "R > 0"),
    "deep_not": rule("not " * 50_000 + "(R > 0)"),
    "deep_conditional": rule("R > 0 if R > 1 else " * 20_000 + "R > 2"),
    "deep_subscript": varied(RULE, "['(" + "R," + ")" + "[0]" * 50_000 + " > 0']"),
    "long_name": rule("R" * 1_000_000 + " > 0"),
    "negative_extent": varied("R: 4", "R: -4"),
}

NAMES = {
    "builtins_as_index": varied("{R: Dim, C", "{__builtins__: Dim, R: Dim, C"),
    "dunder_index": varied("{R: Dim, C", "{__class__: Dim, R: Dim, C"),
    "keyword_index": varied("{R: Dim, C", "{lambda: Dim, R: Dim, C"),
    "none_index": varied("{R: Dim, C", "{None: Dim, R: Dim, C"),
    "true_index": varied("{R: Dim, C", '{"True": Dim, R: Dim, C'),
    "self_parameter": varied("      gain:", "      self: {type: int, default: 0}\n      gain:"),
    "target_parameter": varied("      gain:", "      target: {type: str, default: a}\n      gain:"),
    "underscored_parameter": varied(
        "      gain:", "      _instance_key: {type: str, default: a}\n      gain:"
    ),
    "out_input": varied("      x: {dtype", "      out: {dtype"),
    "statement_as_index": varied("{R: Dim, C", '{"R = canary.spring()": Dim, R: Dim, C'),
    "newline_in_index": varied("{R: Dim, C", '{"R\\nimport canary": Dim, R: Dim, C'),
    "argument_as_input": varied("      x: {dtype", '      "x, *, y=canary.spring()": {dtype'),
    "output_that_closes": varied(
        "      y: {dtype", '      "y): pass\\nimport canary\\ndef f(": {dtype'
    ),
    "key_with_newline": BASE.replace("ProbeFwdOp:", '"ProbeFwdOp\\nimport canary":'),
    "key_that_closes": BASE.replace("ProbeFwdOp:", '"ProbeFwdOp): import canary #":'),
    "key_with_path": BASE.replace("ProbeFwdOp:", '"../../ProbeFwdOp":'),
    "key_not_ascii": BASE.replace("ProbeFwdOp:", '"Prob\N{CYRILLIC SMALL LETTER IE}FwdOp":'),
    "family_with_path": varied("family: probes", "family: ../../etc"),
    "family_with_newline": varied("family: probes", 'family: "probes\\nimport canary"'),
    "family_of_the_machinery": varied("family: probes", "family: manifest"),
    "literal_with_newline": varied(
        "\"'slow' | 'exact'\", default: slow",
        "\"'slow\\nimport canary' | 'exact'\", default: exact",
    ),
    "literal_with_quote": varied(
        "\"'slow' | 'exact'\", default: slow",
        "\"'slow\\\\'); canary.spring(' | 'exact'\", default: exact",
    ),
    "type_call": varied("type: float", 'type: "canary.spring()"'),
    "type_subscript": varied("type: float", 'type: "list[canary.Trap]"'),
    "label_with_newline": varied("label: tiny", 'label: "tiny\\nimport canary"'),
    "label_with_path": varied("label: tiny", "label: ../../../tmp/x"),
    "default_of_another_type": varied("default: 1.0", 'default: "1.0); import canary"'),
    "roofline_function": varied('{flops: "R * C"}', "{func: canary.spring}"),
    "roofline_system": varied('{flops: "R * C"}', "{func: os.system}"),
    "roofline_eval": varied('{flops: "R * C"}', "{func: builtins.eval}"),
    "roofline_of_the_machinery": varied(
        '{flops: "R * C"}', "{func: tileops._core.spec.registry.allow}"
    ),
    "adt_class": adt("fields: {n: Int}"),
    "adt_popen": adt("fields: {args: Int}", "subprocess.Popen"),
    "adt_exit": adt("fields: {status: Int}", "os._exit"),
    "adt_statement": adt("fields: {n: Int}", '"canary; import os"'),
    "adt_field_class": adt("fields: {f: {type: \"'p' | 'q'\", python: canary.Trap}}", "tests.Trap"),
    "adt_invariant": adt('fields: {n: Int}, invariant: "canary.spring()"', "tests.Trap"),
    "adt_named_int": varied(
        "ProbeFwdOp:", "adts: {int: {sum: {a: {python: tests.Trap}}}}\nProbeFwdOp:"
    ),
    "reference_api": varied("status: implemented", "status: spec-only\n  ref_api: os.system()"),
    "stage_of_itself": varied(
        "  workloads:",
        "  composition: {kind: composite, stages: [{name: a, op: ProbeFwdOp}]}\n  workloads:",
    ),
    "backward_with_code": varied(
        "  workloads:", "  backward: {op: 'canary.spring', inputs: {}, outputs: {}}\n  workloads:"
    ),
}

ALL = {
    f"{group}-{name}": text
    for group, texts in (
        ("escape", ESCAPES), ("yaml", YAML), ("exhaustion", EXHAUSTION), ("name", NAMES),
    )
    for name, text in texts.items()
}  # fmt: skip
