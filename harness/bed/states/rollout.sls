# An orchestration, for `salt-run state.orchestrate rollout`: look who is there, try the states on a few, then on all.
{%- set tgt = pillar.get('tgt', '*') %}
{%- set canary = pillar.get('canary', tgt) %}

ping:
  salt.function:
    - name: test.ping
    - tgt: '{{ tgt }}'

canary:
  salt.state:
    - tgt: '{{ canary }}'
    - highstate: True
    - require:
      - salt: ping

rollout:
  salt.state:
    - tgt: '{{ tgt }}'
    - highstate: True
    - require:
      - salt: canary

check:
  salt.function:
    - name: cmd.run
    - tgt: '{{ tgt }}'
    - arg:
      - uptime
    - require:
      - salt: rollout
