export default {
  optimizeDeps: { exclude: ['glovebox-sandbox'] },
  // Shared memory, by which tools answer and scripts are cancelled.
  server: { headers: { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' } },
};
