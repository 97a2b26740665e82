os.sleep(100)
