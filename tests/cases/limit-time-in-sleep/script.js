os.sleep(60000)
