"""A program that Hydra configures: it stores a memory, retrieves it and prints what it was configured with."""

import json
import sys

import hydra

from treering.client import BlockingMemoryClient
from treering.testing import HashingEmbedder


@hydra.main(version_base=None, config_path="hydra_conf", config_name="config")
def main(cfg):
    with BlockingMemoryClient(cfg.memory, background=False, embedder=HashingEmbedder()) as client:
        client.store("Test execution of BWA tool", {"tool": "bwa"})
        found = [memory.content for memory in client.retrieve("BWA tool execution")]
        sys.stdout.write(json.dumps([client.config.model_dump(mode="json"), found]))


main()
