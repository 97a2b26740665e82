open("/app/../etc/passwd")
