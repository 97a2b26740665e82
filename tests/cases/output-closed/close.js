console.log("before");
std.out.flush();
os.close(1);
