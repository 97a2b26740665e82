"""Waits for the server at AWS_ENDPOINT_URL, and creates a bucket on it."""

import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

client = boto3.client("s3")
began = time.monotonic()
while True:
    try:
        client.create_bucket(Bucket=sys.argv[1])
        break
    except (BotoCoreError, ClientError) as error:
        if time.monotonic() - began > 60:
            sys.exit(f"cannot create the bucket: {error}")
        time.sleep(0.3)
