"""What the web tools share: an app with a locked door, pages that look alike, thumbnails, and the server.

It knows nothing of what the tools show. Needs the extra `study` (Starlette, uvicorn, itsdangerous).
"""
