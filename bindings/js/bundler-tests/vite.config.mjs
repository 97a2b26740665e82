export default {
  optimizeDeps: { exclude: ['glovebox-sandbox'] },
  // Shared memory carries the answers of tools and the cancellation of scripts.
  server: { headers: { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' } },
};
