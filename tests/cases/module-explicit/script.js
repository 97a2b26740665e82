console.log(typeof this);
