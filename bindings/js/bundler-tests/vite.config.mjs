export default {
  optimizeDeps: { exclude: ['glovebox-sandbox'] },
  // Tool answers and cancellations need shared memory.
  server: { headers: { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' } },
};
