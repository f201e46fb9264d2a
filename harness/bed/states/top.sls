base:
  '*':
    - bed
