const größe = "äß";
console.log(größe.length, "😀".length);
