while(true) {}
