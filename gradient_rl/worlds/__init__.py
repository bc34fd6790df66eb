"""A generator of workspaces: the world first, then the records that it leaves, then tasks that are true by construction."""
