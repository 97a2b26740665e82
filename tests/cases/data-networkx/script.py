import networkx as nx
import pandas as pd

edges = pd.read_csv("roads.csv")
G = nx.from_pandas_edgelist(edges, "from", "to", edge_attr="km")
print(G.number_of_nodes(), G.number_of_edges(), nx.is_connected(G))
print(nx.shortest_path(G, "A", "E", weight="km"), nx.shortest_path_length(G, "A", "E", weight="km"))
print(nx.shortest_path(G, "A", "E"), dict(nx.single_source_dijkstra_path_length(G, "A", weight="km")))
print({k: round(v, 3) for k, v in nx.degree_centrality(G).items()})
print({k: round(v, 3) for k, v in sorted(nx.pagerank(G).items())})
print(sorted(tuple(sorted(e)) for e in nx.minimum_spanning_edges(G, weight="km", data=False)))

D = nx.DiGraph([("shirt", "tie"), ("tie", "jacket"), ("trousers", "shoes"), ("trousers", "jacket")])
print(nx.is_directed_acyclic_graph(D), list(nx.lexicographical_topological_sort(D)), nx.dag_longest_path(D))
print([sorted(c) for c in nx.community.greedy_modularity_communities(nx.barbell_graph(4, 0))])
flow = nx.DiGraph()
flow.add_edge("s", "a", capacity=3)
flow.add_edge("a", "t", capacity=2)
print(nx.maximum_flow_value(flow, "s", "t"), nx.to_numpy_array(G, weight="km").sum())
nx.write_graphml(D, "clothes.graphml")
print(nx.read_graphml("clothes.graphml").number_of_edges())
