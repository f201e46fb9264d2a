# Two dozen states that do real work on a real minion, all of it below the minion's own cache folder.
{%- set work = opts['cachedir'] ~ '/work' %}

work-folder:
  file.directory:
    - name: {{ work }}
    - makedirs: True

{%- for number in range(1, 19) %}

file-{{ number }}:
  file.managed:
    - name: {{ work }}/file-{{ number }}.conf
    - contents: |
        # file {{ number }} for {{ grains['os'] }}
        value = {{ number * number }}
    - mode: '0640'
    - require:
      - file: work-folder
{%- endfor %}

template:
  file.managed:
    - name: {{ work }}/facts.txt
    - source: salt://files/facts.txt
    - template: jinja

link:
  file.symlink:
    - name: {{ work }}/facts
    - target: {{ work }}/facts.txt
    - require:
      - file: template

line:
  file.append:
    - name: {{ work }}/appended.conf
    - text: appended = yes
    - require:
      - file: work-folder

absent:
  file.absent:
    - name: {{ work }}/not-there

nothing:
  test.nop

configured:
  test.succeed_without_changes:
    - require:
      - file: line
      - file: link
