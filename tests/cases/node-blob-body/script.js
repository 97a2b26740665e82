(async () => {
  const response = new Response(new Blob(['hé'], { type: 'a/b' }));
  console.log(response.headers.get('content-type'));
  const blob = await response.blob();
  console.log(blob.type, blob.size, await blob.text());
  console.log(await new Request('http://a.example', { method: 'POST', body: new Blob(['x', 'y']) }).text());
})();
