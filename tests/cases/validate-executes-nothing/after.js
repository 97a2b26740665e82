console.log(os.stat("/app/made")[1] === 0);
