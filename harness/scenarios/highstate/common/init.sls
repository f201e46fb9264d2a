{% from "map.jinja" import site with context %}
motd:
  file.managed:
    - name: /etc/motd
    - source: salt://files/motd
    - template: jinja

time-sync:
  pkg.installed:
    - name: chrony
  file.managed:
    - name: /etc/chrony/chrony.conf
    - source: salt://files/chrony.conf
    - require:
      - pkg: time-sync
  service.running:
    - name: chronyd
    - watch:
      - file: time-sync

operator:
  user.present:
    - home: {{ site.root }}
