"""What the web tools share: an app with access checks, page templates, images and thumbnails, and the server.

It knows nothing about what the tools show. Needs the extra `study` (Starlette, uvicorn, itsdangerous).
"""
