const { port1, port2 } = new MessageChannel();
port2.onmessage = (event) => {
  console.log(event.data, event instanceof Event);
  port1.close();
};
const sent = { list: [1], when: new Date(0) };
port1.postMessage(sent);
sent.list.push(2);
const first = new BroadcastChannel('news');
const second = new BroadcastChannel('news');
const other = new BroadcastChannel('else');
second.onmessage = ({ data }) => {
  console.log('heard', data);
  first.close();
  second.close();
  other.close();
};
first.onmessage = other.onmessage = () => console.log('never');
first.postMessage('hello');
try {
  port1.postMessage(() => {});
} catch (error) {
  console.log(error.name);
}
try {
  new MessagePort();
} catch (error) {
  console.log(error.name);
}
