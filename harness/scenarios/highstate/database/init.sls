database:
  pkg.installed:
    - name: postgresql
  file.managed:
    - name: /etc/postgresql/postgresql.conf
    - source: salt://files/postgresql.conf
