{% from "map.jinja" import site with context %}
include:
  - common

web-server:
  pkg.installed:
    - name: nginx
  file.managed:
    - name: /etc/nginx/nginx.conf
    - source: salt://files/nginx.conf
    - template: jinja
    - context:
        port: {{ site.port }}
  service.running:
    - name: nginx
    - watch:
      - file: web-server

site:
  file.recurse:
    - name: {{ site.root }}
    - source: salt://files/tree
    - require:
      - pkg: web-server
