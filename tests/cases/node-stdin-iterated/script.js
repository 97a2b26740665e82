(async () => {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  console.log(Buffer.concat(chunks).toString('hex'));
})();
