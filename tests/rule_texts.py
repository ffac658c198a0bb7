"""Rule files for tests: a test writes only the part that it is about."""

from __future__ import annotations

from textwrap import dedent, indent

from steward.model.rules import Clause, MetricTerm, Rule, RuleNode
from steward.store.rules import Parsed, examine_text, parse_rules
from steward.store.rules.checks import expanded

EVERYTHING = """\
section: rules
rules:
  - metadata:
      id: 4hje4sHmZW2GnSxijP6TQh
      hash: mnRBzQ9fdJZqXQ6xRAv2tT
      generation: 3
      kind: prequel
      version: "1.2"
      name: everything
    cre:
      id: TEST-0001
      severity: 2
      title: Everything at once
      category: testing
      author: somebody
      description: |
        Two lines
        of text.
      cause: a
      impact: b
      mitigation: c
      tags: [one, 2, yes]
      references:
        - https://example.org/1
      applications:
        - name: redis
          processName: redis-server
          processPath: /usr/bin/redis-server
          containerName: cache
          imageUrl: example.org/redis
          repoUrl: example.org/source
          version: 7.0
      impactScore: 8
      mitigationScore: 4
      reports: 12
    rule:
      sequence:
        window: 1m30s
        correlations: [host, pod]
        order:
          - set:
              event: {source: cre.log.redis, origin: true}
              window: 10s
              match:
                - value: out of memory
                  count: 3
                  extract:
                    - {name: pod, regex: 'pod=(\\w+)'}
                    - {name: node, jq: .node}
                - killed
              negate:
                - regex: restart(ed)?
                  window: -5s
                  slide: -1s
                  anchor: 3
                  absolute: true
          - promql:
              expr: gpu_util < 0.3
              for: 5m
              interval: 10s
              event: {source: telemetry}
        negate:
          - warming up
    steward:
      action: lend
      advice: Lend the GPU.
      precondition: gpu_util < 0.5
      effect: {expr: gpu_util, direction: up, at_least: 0.2}
      check_after: 15m
      undo: call-back
terms:
  warming up:
    set:
      event: {source: cre.log.training}
      match: [{jq: .warming}]
"""


def file(rule: str, *, rule_id: str = "TEST-0001", terms: str = "", more: str = "") -> str:
    """Return a file with one rule: what is under `rule`, and under `terms`."""
    text = f"rules:\n- cre: {{id: {rule_id}}}\n{indent(dedent(more), '  ')}  rule:\n"
    text += indent(dedent(rule).strip("\n"), "    ") + "\n"
    return text + (f"terms:\n{indent(dedent(terms).strip(chr(10)), '  ')}\n" if terms else "")


def root(rule: str, *, terms: str = "", lenient: bool = False) -> RuleNode:
    """Return what a rule looks for; the text must be sound."""
    return one(file(rule, terms=terms), lenient=lenient).root


def one(text: str, *, lenient: bool = False) -> Rule:
    """Return the only rule of a sound text."""
    (rule,) = parse_rules(text, file="rules.yaml", lenient=lenient)
    return rule


def problems(text: str, *, lenient: bool = False) -> list[str]:
    """Return what is wrong with a text, as `LINE:COLUMN PROBLEM`."""
    found: Parsed = examine_text(text, file="rules.yaml", lenient=lenient)
    return [f"{each.place.line}:{each.place.column} {each.problem}" for each in found.faults]


def only_problem(rule: str, *, terms: str = "") -> str:
    """Return the one thing that is wrong with a rule, without its place."""
    found = [each.partition(" ")[2] for each in problems(file(rule, terms=terms))]
    assert len(found) == 1, found
    return found[0]


def remarks(text: str, *, lenient: bool = False) -> list[str]:
    """Return what is worth knowing about a sound text."""
    found = examine_text(text, file="rules.yaml", lenient=lenient)
    assert not found.faults
    return [each.problem for each in found.notes]


def must_hold(parsed: Parsed) -> None:
    """Assert what must hold of anything that was read, whatever was written."""
    for said in (*parsed.faults, *parsed.notes):
        assert said.problem
        assert said.place.file
        assert len(str(said)) < 2_000
    for rule in parsed.rules:
        _rule_holds(rule)


def _rule_holds(rule: Rule) -> None:
    assert len(rule.id) >= 4
    assert len(rule.key) >= 12
    assert len(rule.hash) >= 12
    leaves = list(_blamed(rule.root))
    assert len(leaves) == 1
    _node_holds(rule.root)


def _node_holds(node: RuleNode) -> None:
    events = expanded(node)
    assert events >= (2 if node.kind == "sequence" else 1)
    assert (node.window_ns > 0) == (events > 1)
    assert all(0 <= each.anchor < events for each in node.negations)
    plain = [each for each in node.clauses if not isinstance(each.what, RuleNode | MetricTerm)]
    assert len(plain) == (len(node.clauses) if node.source else 0)
    for part in (*node.clauses, *node.negations):
        if isinstance(part.what, RuleNode):
            _node_holds(part.what)


def _blamed(node: RuleNode) -> list[RuleNode | Clause]:
    if node.is_leaf:
        return [node] if node.origin else []
    inside = [each for each in node.clauses if isinstance(each.what, RuleNode)]
    found = [
        each
        for clause in inside
        if isinstance(clause.what, RuleNode)
        for each in _blamed(clause.what)
    ]
    return found + [
        each for each in node.clauses if isinstance(each.what, MetricTerm) and each.what.origin
    ]
