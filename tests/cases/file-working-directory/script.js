console.log(os.getcwd()[0]);
std.open("here.txt", "w").close();
