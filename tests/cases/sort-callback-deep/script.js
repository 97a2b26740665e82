const deep = () => [2, 1].sort(deep);
try {
  deep();
} catch (e) {
  console.log(e.name);
}
