export default {
  optimizeDeps: { exclude: ['glovebox-sandbox'] },
  // Shared memory transfers tool answers and cancellations.
  server: { headers: { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' } },
};
