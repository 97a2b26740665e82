console.log(shared);
