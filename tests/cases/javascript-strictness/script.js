undeclared = 1;
console.log("undeclared", globalThis.undeclared);
(function () {
  "use strict";
  try {
    another = 2;
  } catch (e) {
    console.log(e.name);
  }
})();
