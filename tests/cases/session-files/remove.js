os.remove("log.txt");
