# Puts the wheel of package states on minions, and restarts those that had another one.
# Copy this file below file_roots, and the one wheel into the folder saltext-package-states beside it.
{%- set service = "salt-minion" %}
{%- set there = salt["cp.list_master"](prefix="saltext-package-states/") | select("match", ".*[.]whl$") | list %}
{%- if there | length != 1 %}
{{ raise("Below file_roots, saltext-package-states/ has " ~ there | length ~ " wheels; put one there.") }}
{%- endif %}
{%- set wheel = salt["cp.cache_file"]("salt://" ~ there[0]) %}
{%- if not wheel %}
{{ raise(there[0] ~ " is listed and not there; the list of files is up to fileserver_list_cache_time old: apply once more in 20 seconds.") }}
{%- endif %}
{%- set mark = opts["cachedir"] ~ "/package_states.whl" %}

package states are installed:
  module.run:
    - pip.install:
      - pkgs: {{ wheel | json }}
      - no_deps: True
      - no_index: True
      - force_reinstall: True
    - unless: 'cmp -s "{{ wheel }}" "{{ mark }}"'

# written when the installation is done: the next run compares with it
package states are noted:
  file.managed:
    - name: {{ mark | json }}
    - source: {{ ("salt://" ~ there[0]) | json }}
    - require:
      - module: package states are installed

# the answer of this run has time to leave
minion restarts with package states:
  cmd.run:
    - name: sleep 5; systemctl restart {{ service }}
    - bg: True
    - order: last
    - onchanges:
      - file: package states are noted
