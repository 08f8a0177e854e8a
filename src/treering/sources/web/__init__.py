"""Pages of the web as sources: one address, or all that a sitemap lists."""
