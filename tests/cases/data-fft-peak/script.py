import numpy as np
from scipy import fft, signal

fs = 1000
t = np.arange(0, 1, 1 / fs)
rng = np.random.default_rng(0)
x = np.sin(2 * np.pi * 50 * t) + 0.5 * np.sin(2 * np.pi * 120 * t) + rng.normal(scale=0.2, size=t.size)

spectrum = np.abs(np.fft.rfft(x)) / len(x) * 2
freqs = np.fft.rfftfreq(len(x), 1 / fs)
peaks, _ = signal.find_peaks(spectrum, height=0.3)
for i in peaks:
    print(f"{freqs[i]:.0f} Hz amplitude {spectrum[i]:.1f}")

print(np.allclose(fft.rfft(x), np.fft.rfft(x)), np.allclose(fft.irfft(fft.rfft(x)), x))
f, pxx = signal.welch(x, fs, nperseg=250)
print("welch", f[np.argmax(pxx)])

b, a = signal.butter(4, 80, fs=fs, btype="low")
y = signal.filtfilt(b, a, x)
low = np.abs(np.fft.rfft(y)) / len(y) * 2
print(f"{low[50]:.1f} {low[120]:.1f}")
print(np.convolve([1, 2, 3], [0, 1, 0.5]).tolist(), signal.resample(np.ones(8), 4).round(6).tolist())
