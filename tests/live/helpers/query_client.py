"""A client of queries that knows nothing of Salt: it prints any query from the definitions that come with the answer.

python query_client.py URL TOKEN WHAT FIELD...
"""

import json
import sys
from urllib.request import Request, urlopen

url, token, what, *fields = sys.argv[1:]
headers = {"X-Auth-Token": token, "Content-Type": "application/json", "Accept": "application/json"}
offset = 0
while offset is not None:
    body = json.dumps({"fields": fields, "offset": offset}).encode()
    with urlopen(Request(f"{url}/query/{what}", body, headers)) as answer:  # noqa: S310 - the bed's own address
        page = json.load(answer)["return"][0]
    if not offset:
        print(*(field["title"] or field["name"] for field in page["fields"]))
    for row in page["data"]:
        print(*(f"({status})" if status else value for status, value in row))
    offset = page.get("next")
