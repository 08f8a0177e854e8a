"""OpenAI's chat API in front of any upstream, with memory before and after."""
