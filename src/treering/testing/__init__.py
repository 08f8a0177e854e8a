"""Contract suites and honest fakes for people who write backends."""
