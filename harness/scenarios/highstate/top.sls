base:
  '*':
    - common
    - web
  'G@role:db':
    - match: compound
    - database
