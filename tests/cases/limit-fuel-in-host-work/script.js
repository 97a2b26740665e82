for (;;) os.stat("/app");
