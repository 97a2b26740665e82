print("at12")  # 20
