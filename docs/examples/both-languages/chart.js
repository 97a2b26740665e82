const readings = readJson('readings.json');
const stations = Object.groupBy(readings, ({ station }) => station);
for (const [station, list] of Object.entries(stations)) {
  const mean = list.reduce((sum, { celsius }) => sum + celsius, 0) / list.length;
  console.log(`JavaScript: ${station.padEnd(8)} ${mean.toFixed(1).padStart(5)} °C`);
  for (const { time, celsius } of list) console.log(`  ${time.slice(11, 16)} ${'#'.repeat(Math.round(celsius + 10))}`);
}
writeText('chart.txt', Object.keys(stations).join('\n'));
